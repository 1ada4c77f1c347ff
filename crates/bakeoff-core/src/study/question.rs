//! Names the workload and load that carry a study's question.
//!
//! A study may have many side questions. Reports begin with the answer under this workload and load.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Study;

/// Names the workload and load that carry a study's question.
///
/// It displays as in a study: `create/best`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DecidingPlace {
    /// Name of one of the study's workloads.
    pub workload: String,
    /// Name of one of that workload's loads.
    pub load: String,
}

impl fmt::Display for DecidingPlace {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}/{}", self.workload, self.load)
    }
}

impl Study {
    /// Returns the names of the workload and load that carry the study's question: by default, the first workload and
    /// its first load. Both are empty for a study without any.
    pub fn deciding_place(&self) -> (&str, &str) {
        let named = self.question.as_ref().and_then(|question| {
            let workload = self.workloads.iter().find(|one| one.name == question.workload)?;
            let load = workload.loads.iter().find(|load| **load == question.load)?;
            Some((workload.name.as_str(), load.as_str()))
        });
        let first = || {
            let workload = self.workloads.first()?;
            Some((workload.name.as_str(), workload.loads.first()?.as_str()))
        };
        named.or_else(first).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::super::testing::kinds;
    use super::*;

    fn study(question: &str) -> Study {
        let text = format!(
            "title: t
systems: {{one: {{kind: canary}}}}
workloads:
  a: {{mix: {{put: 1}}, keys: {{count: 10}}, loads: [brisk, slow]}}
  b: {{mix: {{put: 1}}, keys: {{count: 10}}}}
loads:
  slow: {{clients: 1, stop: {{after: 1s}}}}
  brisk: {{clients: 2, stop: {{after: 1s}}}}
{question}
"
        );
        parse("t", "t.yaml", &text, &kinds()).unwrap_or_else(|wrong| panic!("{wrong}"))
    }

    #[test]
    fn first_workload_and_its_first_load_decide_by_default() {
        assert_eq!(study("").question, None);
        assert_eq!(study("").deciding_place(), ("a", "brisk"));
        assert_eq!(study("question: b").deciding_place(), ("b", "slow"));
        assert_eq!(study("question: b/brisk").deciding_place(), ("b", "brisk"));
    }

    #[test]
    fn question_about_what_a_study_lacks_decides_nothing() {
        let mut study = study("question: b/brisk");
        study.workloads.truncate(1);
        assert_eq!(study.deciding_place(), ("a", "brisk"));
        study.workloads.clear();
        assert_eq!(study.deciding_place(), ("", ""));
    }
}
