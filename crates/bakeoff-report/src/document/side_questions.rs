//! The workloads and loads besides the deciding one: each with its answer in a line, and its own systems.
//!
//! Not here: the deciding workload and load (`headline`, `key_figures`).

use super::key_figures::key_figures;
use super::table::Table;
use crate::derive::comparison::Comparison;
use crate::derive::leader::{figures_text, rankings_text};
use crate::derive::outage_sentence;
use crate::document::picture::Picture;

/// A workload and load that does not carry the study's question.
#[derive(Debug, Clone)]
pub(crate) struct SideQuestion {
    /// `create/sweep: etcd 5,820/s, zookeeper 7,120/s; zookeeper > etcd`.
    pub(crate) answer: String,
    /// Key figures of the systems that take part.
    pub(crate) figures: Table,
}

impl SideQuestion {
    pub(crate) fn new(of: &Comparison, picture: &Picture) -> Self {
        let faults: Vec<String> =
            of.outages.iter().map(|fault| outage_sentence::sentence(fault, "")).collect();
        let answer = match faults.is_empty() {
            false => faults.join("; "),
            true => {
                let order = rankings_text(of).filter(|_| of.contenders.len() > 1);
                let order = order.map_or_else(String::new, |order| format!("; {order}"));
                format!("{}{order}", figures_text(of).join(", "))
            }
        };
        let answer = if answer.is_empty() { "no valid trial".to_owned() } else { answer };
        Self { answer: format!("{}: {answer}", of.place()), figures: key_figures(of, picture) }
    }
}
