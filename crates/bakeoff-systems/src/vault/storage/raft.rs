//! Stores data with Raft: every node holds all data.

use bakeoff_core::study::{KindOption, OptionForm};
use serde_json::{Map, Value, json};

use super::{NodeStorage, Storage, StorageGuarantees};
use crate::{ASKED, majority_disks, setting, synced_by};

pub(crate) const MULTIPLIER: KindOption = KindOption {
    name: "raft-multiplier",
    form: OptionForm::Number,
    meaning: "multiplier of Raft's timeouts; HashiCorp advises 1 for production, the default is 5",
};

pub(crate) const STORAGE: Storage = Storage {
    name: "raft",
    options: &[MULTIPLIER],
    exclusive: Some((MULTIPLIER.name, "keep data by Raft")),
    settings: |context| {
        let multiplier = context.option(MULTIPLIER.name);
        let joined = "the nodes join by themselves";
        let join = (context.system.nodes > 1)
            .then(|| setting("storage.raft.retry_join", "all nodes", joined));
        multiplier
            .map(|multiplier| setting("storage.raft.performance_multiplier", multiplier, ASKED))
            .into_iter()
            .chain(join)
            .collect()
    },
    config: |node, _| config(node),
    guarantees: Some(|system| StorageGuarantees {
        replication: "Raft: every server holds all data; a majority must live".to_owned(),
        acknowledged: synced_by(system).to_owned(),
        acknowledged_in: Some(majority_disks(system)),
    }),
    ..Storage::PLAIN
};

fn config(node: &NodeStorage<'_>) -> Value {
    // The folder must exist already.
    let mut raft = json!({"path": node.dir, "node_id": node.name});
    if let Some(multiplier) = node.context.option(MULTIPLIER.name) {
        raft["performance_multiplier"] = json!(multiplier);
    }
    let join = |api: &String| {
        let mut join = Map::from_iter([("leader_api_addr".to_owned(), json!(api))]);
        if node.tls {
            join.insert("leader_ca_cert_file".to_owned(), json!(node.dir.join("ca.pem")));
        }
        Value::Object(join)
    };
    if node.api.len() > 1 {
        let others = node.api.iter().enumerate().filter(|&(other, _)| other != node.index);
        raft["retry_join"] = others.map(|(_, api)| join(api)).collect();
    }
    raft
}
