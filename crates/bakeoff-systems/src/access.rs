//! Access to a node that runs, and the memory of its cluster.
//!
//! Not here: access that goes to generators on other machines (`carried`).

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bakeoff_engine::peer::Peer;
use bakeoff_engine::transport::Target;

/// How clients reach one node.
#[derive(Debug, Clone)]
pub struct Access {
    /// `etcd-1`.
    pub name: String,
    /// `127.0.0.1:2379`, as it is named in requests.
    pub authority: String,
    /// Its address, and how TLS is spoken there.
    pub target: Target,
    /// The memory of its cluster's system.
    pub memory: Memory,
}

impl Access {
    /// Returns the node as clients of a load connect to it.
    pub(crate) fn peer(&self) -> Peer {
        Peer::new(&self.target, &self.authority)
    }
}

/// The memory of one cluster from one call to the next: a root token, the keys
/// that unseal it, the objects made for a workload. One value of each type; shared by its clones. It is
/// never printed, for much of it is secret.
#[derive(Clone, Default)]
pub struct Memory(Arc<Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>>);

impl Memory {
    /// Keeps a value, in place of one of its type that is there.
    pub fn keep<T: Any + Send + Sync>(&self, value: T) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.insert(TypeId::of::<T>(), Arc::new(value));
    }

    /// The value of a type, if there is one.
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

/// The token that clients of a cluster of ours send with each request. It has no `Debug`, so that nothing
/// prints it.
pub struct ClientToken(pub String);

/// User and password with which clients of a cluster that runs already sign in. It has no `Debug`, so that
/// nothing prints it.
pub struct Login {
    /// The user's name.
    pub user: String,
    /// The user's password.
    pub password: String,
}
