//! Tests bakeoff's commands, exit codes, records and reports, mostly against the canary.
//!
//! One test program, because each one links all of bakeoff. Not here: real systems (`servers`), the faults that checks
//! must catch (`faults`), the report in a browser (`report_html`).

#![allow(clippy::disallowed_methods, reason = "tests time what they see from outside")]
#![allow(clippy::disallowed_macros, reason = "a test says what it saw")]

mod action;
mod agent;
mod bit_flip;
mod canary;
mod capacity;
mod checks;
mod cli;
mod clusters;
mod compare;
mod conditions;
mod diagnostics;
mod disk_faults;
mod durability;
mod engine;
mod etcd_benchmark;
mod evidence;
mod fairness;
mod faults;
mod gate;
mod hey;
mod hostile_http;
mod hostile_runs;
mod json_schemas;
mod linearizability;
mod live;
mod load;
mod load_addresses;
mod load_secrets;
mod load_servers;
mod load_tls;
mod metered;
mod narration;
mod nothing_left_running;
mod observed;
mod outputs;
mod own_services;
mod places;
mod power;
mod precision;
mod reproduce;
mod resume;
mod shown;
mod staleness;
mod start;
#[path = "../support/mod.rs"]
mod support;
mod trend;
mod watches;
mod words;
mod wrk;
