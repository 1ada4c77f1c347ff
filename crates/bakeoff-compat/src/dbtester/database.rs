//! Lists the databases that dbtester supports, by their ids in configurations.

/// A database in a configuration. The id selects the flags that dbtester passes. The program determines the version
/// that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "each is an id of dbtester's")]
pub enum Database {
    EtcdOther,
    EtcdTip,
    EtcdV3_2,
    EtcdV3_3,
    Zookeeper,
    Consul,
    Zetcd,
    Cetcd,
}

/// Product of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is a product's name")]
pub enum Product {
    Etcd,
    Zookeeper,
    Consul,
    Zetcd,
    Cetcd,
}

impl Database {
    /// All ids, in dbtester's order.
    pub const ALL: [Self; 8] = [
        Self::EtcdOther,
        Self::EtcdTip,
        Self::EtcdV3_2,
        Self::EtcdV3_3,
        Self::Zookeeper,
        Self::Consul,
        Self::Zetcd,
        Self::Cetcd,
    ];

    /// Returns its id in a configuration.
    pub fn id(self) -> &'static str {
        match self {
            Self::EtcdOther => "etcd__other",
            Self::EtcdTip => "etcd__tip",
            Self::EtcdV3_2 => "etcd__v3_2",
            Self::EtcdV3_3 => "etcd__v3_3",
            Self::Zookeeper => "zookeeper__r3_5_3_beta",
            Self::Consul => "consul__v1_0_2",
            Self::Zetcd => "zetcd__beta",
            Self::Cetcd => "cetcd__beta",
        }
    }

    /// Returns the database with this id.
    pub fn find(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.id() == id)
    }

    /// Returns the product that this id belongs to.
    pub fn product(self) -> Product {
        match self {
            Self::EtcdOther | Self::EtcdTip | Self::EtcdV3_2 | Self::EtcdV3_3 => Product::Etcd,
            Self::Zookeeper => Product::Zookeeper,
            Self::Consul => Product::Consul,
            Self::Zetcd => Product::Zetcd,
            Self::Cetcd => Product::Cetcd,
        }
    }
}

impl Product {
    /// Returns the name in dbtester's `PROGRAM` column and in bakeoff's kinds.
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::Zookeeper => "zookeeper",
            Self::Consul => "consul",
            Self::Zetcd => "zetcd",
            Self::Cetcd => "cetcd",
        }
    }

    /// Returns the client port if a configuration gives none.
    pub(super) fn default_port(self) -> u16 {
        match self {
            Self::Etcd => 2379,
            Self::Zookeeper => 2181,
            Self::Consul => 8500,
            Self::Zetcd => 2181,
            Self::Cetcd => 8500,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_finds_its_database() {
        for one in Database::ALL {
            assert_eq!(Database::find(one.id()), Some(one));
        }
        assert_eq!(Database::find("etcd"), None);
    }
}
