//! Shipped recipes, for tests of how they are fetched.
//!
//! They belong to `bakeoff-systems`, which depends on this crate. Only tests read them here.

#[path = "../../../bakeoff-systems/src/consul/recipe.rs"]
pub(crate) mod consul;
#[path = "../../../bakeoff-systems/src/dynamodb_emulator/recipe.rs"]
pub(crate) mod dynamodb_emulator;
#[path = "../../../bakeoff-systems/src/envoy/recipe.rs"]
pub(crate) mod envoy;
#[path = "../../../bakeoff-systems/src/etcd/recipe.rs"]
pub(crate) mod etcd;
#[path = "../../../bakeoff-systems/src/gcs_emulator/recipe.rs"]
pub(crate) mod gcs_emulator;
#[path = "../../../bakeoff-systems/src/istio/recipe.rs"]
pub(crate) mod istio;
#[path = "../../../bakeoff-systems/src/openbao/recipe.rs"]
pub(crate) mod openbao;
#[path = "../../../bakeoff-systems/src/zookeeper/recipe.rs"]
pub(crate) mod zookeeper;
