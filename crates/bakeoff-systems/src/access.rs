//! Describes how clients reach a running node, and stores values for its cluster.
//!
//! Not here: access from generators on other machines (`carried_access`).

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bakeoff_engine::peer::Peer;
use bakeoff_engine::transport::Target;

/// Everything that clients need to reach one node.
#[derive(Debug, Clone)]
pub struct Access {
    /// Node name: `etcd-1`.
    pub name: String,
    /// Host and port in requests: `127.0.0.1:2379`.
    pub authority: String,
    /// Address and TLS settings.
    pub target: Target,
    /// Values shared by all nodes of the cluster.
    pub memory: Memory,
}

impl Access {
    /// Returns the node as a peer for a load.
    pub(crate) fn peer(&self) -> Peer {
        Peer::new(&self.target, &self.authority)
    }
}

/// Values that a cluster keeps between calls, such as a root token, unseal keys, or objects made for a workload. Holds
/// one value per type, shared among clones. Has no `Debug`, because much of it is secret.
#[derive(Clone, Default)]
pub struct Memory(Arc<Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>>);

impl Memory {
    /// Stores a value, replacing any other of its type.
    pub fn keep<T: Any + Send + Sync>(&self, value: T) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.insert(TypeId::of::<T>(), Arc::new(value));
    }

    /// Returns the stored value of a type.
    pub fn get<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get(&TypeId::of::<T>())?.clone().downcast().ok()
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("Memory(…)")
    }
}

/// Token that clients send with each request. Has no `Debug`, so that nothing prints it.
pub struct ClientToken(pub String);

/// Credentials for a cluster that bakeoff did not start. Has no `Debug`, so that nothing prints them.
pub struct Login {
    /// Name of the user.
    pub user: String,
    /// Password of the user.
    pub password: String,
}
