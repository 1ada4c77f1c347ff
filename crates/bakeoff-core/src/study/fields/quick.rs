//! Declares the fields of a study's quick form.
//!
//! Not here: the form itself (`study::quick`).

use super::TRIALS_EACH_MAX;
use super::load::STOP;
use crate::stats::TRIALS_MIN;
use crate::study::field::{Form, Table, default, maybe};

pub(in crate::study) static QUICK: Table = Table {
    name: "quick",
    meaning: "The part of the study that answers its question in minutes. `bakeoff run --quick` runs it.",
    one_of: &[],
    fields: &[
        maybe(
            "workloads",
            Form::List(&Form::Text),
            "[write]",
            "Names of its workloads; by default, the one of the study's `question`.",
        ),
        maybe(
            "systems",
            Form::List(&Form::Text),
            "[etcd, zookeeper]",
            "Names of its systems; by default, all that run these workloads.",
        ),
        maybe(
            "loads",
            Form::Open(&Form::Table(&QUICK_LOAD)),
            "{steady: {warmup: 5s, stop: {after: 8s}}}",
            "Its loads, with their own warm-up and end, by the load's name; by default, all of these workloads, as \
             they are.",
        ),
        default(
            "trials",
            Form::Whole { min: TRIALS_MIN as u64, max: TRIALS_EACH_MAX },
            "3",
            "Number of trials of each combination. Fewer than 3 decide nothing.",
        ),
    ],
};

pub(in crate::study) static QUICK_LOAD: Table = Table {
    name: "quick-load",
    meaning: "What a load of the quick form changes; everything else stays as in the study's load.",
    one_of: &[],
    fields: &[
        maybe(
            "warmup",
            Form::Duration { zero: true, max: "1h" },
            "5s",
            "Warm-up before measuring, in each stage. By default that of the load; the usual one of its end here if \
             the load has none of its own.",
        ),
        maybe(
            "stop",
            Form::Table(&STOP),
            "{after: 8s}",
            "When the load ends; by default as in the study.",
        ),
    ],
};
