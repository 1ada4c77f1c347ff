//! Recipes that ship, for tests of what they ask for. They belong to the systems, which are above this
//! crate: tests alone look up there.

#[path = "../../../bakeoff/src/systems/consul/recipe.rs"]
pub(crate) mod consul;
#[path = "../../../bakeoff/src/systems/dynamodb_emulator/recipe.rs"]
pub(crate) mod dynamodb_emulator;
#[path = "../../../bakeoff/src/systems/envoy/recipe.rs"]
pub(crate) mod envoy;
#[path = "../../../bakeoff/src/systems/etcd/recipe.rs"]
pub(crate) mod etcd;
#[path = "../../../bakeoff/src/systems/gcs_emulator/recipe.rs"]
pub(crate) mod gcs_emulator;
#[path = "../../../bakeoff/src/systems/istio/recipe.rs"]
pub(crate) mod istio;
#[path = "../../../bakeoff/src/systems/openbao/recipe.rs"]
pub(crate) mod openbao;
#[path = "../../../bakeoff/src/systems/zookeeper/recipe.rs"]
pub(crate) mod zookeeper;
