//! Assigns the machines to nodes of each role.
//!
//! Not here: the list of machines, the location of each node (`topology`), the node's configuration (the folder of its
//! kind).

use std::sync::Arc;

use bakeoff_host::Location;

/// Locations of the nodes.
#[derive(Clone)]
pub struct LocationPlan {
    /// Locations of each role and kind, at least one.
    locations: LocationsOf,
    /// Returns the location of a process that runs next to the node at a location.
    adjacent: Arc<dyn Fn(Location) -> Location + Send + Sync>,
}

/// Returns the locations for nodes of a role and a kind.
type LocationsOf = Arc<dyn Fn(&str, &str) -> Vec<Location> + Send + Sync>;

impl LocationPlan {
    /// Locations all nodes on this machine's loopback.
    pub fn here() -> Self {
        Self::by_role_and_kind(|_, _| vec![Location::HERE])
    }

    /// Assigns these locations in rotation; at least one.
    #[cfg(any(test, feature = "testing"))]
    pub fn spread(locations: Vec<Location>) -> Self {
        assert!(!locations.is_empty(), "nodes need a location");
        Self::by_role_and_kind(move |_, _| locations.clone())
    }

    /// Assigns the locations of each role and kind in rotation; at least one.
    pub fn by_role_and_kind(
        locations: impl Fn(&str, &str) -> Vec<Location> + Send + Sync + 'static,
    ) -> Self {
        Self { locations: Arc::new(locations), adjacent: Arc::new(|location| location) }
    }

    /// Sets the location of a process next to a node. It has the same address as the node's.
    pub fn with_adjacent(
        self,
        adjacent: impl Fn(Location) -> Location + Send + Sync + 'static,
    ) -> Self {
        Self { adjacent: Arc::new(adjacent), ..self }
    }

    /// Returns the location of a process next to the node at this location, with the same address.
    pub(crate) fn adjacent(&self, location: Location) -> Location {
        (self.adjacent)(location)
    }

    /// Returns the locations for nodes of a role and a kind, at least one.
    pub(crate) fn of_role(&self, role: &str, kind: &str) -> Vec<Location> {
        (self.locations)(role, kind)
    }
}
