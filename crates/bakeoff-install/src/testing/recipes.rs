//! Recipes that ship, for tests of what they ask for. They belong to the systems, which are above this
//! crate: tests alone look up there.

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
