//! Runs the commands, one module each.
//!
//! Not here: options (`cli`), runs and trials (`bakeoff_trial`), other tools' commands (`bakeoff_compat`).

pub(crate) mod agent;
pub(crate) mod catalogue;
pub(crate) mod clear_cache;
pub(crate) mod compare;
pub(crate) mod conditions;
pub(crate) mod dbtester;
pub(crate) mod doctor;
pub(crate) mod gate;
pub(crate) mod history;
pub(crate) mod judge;
pub(crate) mod load;
pub(crate) mod manifests;
mod new_file;
pub(crate) mod report;
pub(crate) mod reproduce;
pub(crate) mod run;
pub(crate) mod site;
pub(crate) mod start;
pub(crate) mod study_file;
pub(crate) mod verify;
