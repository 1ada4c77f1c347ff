//! The set-up: systems and settings, workloads and loads, the machine.
//!
//! Not here: differences between the systems (the fairness sheet).

use bakeoff_core::record::{Environment, Hardware, PartRecord, SystemRecord};
use bakeoff_core::units::{ByteCount, count_text, figure_text};

use crate::document::report::Report;
use crate::document::words;

use super::page::{grid, paragraph};

pub(super) fn section(report: &Report) -> String {
    let header = &report.header;
    let mut html = String::new();
    if let Some(description) = &header.study.description {
        html.push_str(&paragraph("", description));
    }
    html.push_str("<h3>Systems</h3>");
    html.push_str(&systems(&header.systems));
    html.push_str(&parts(&header.systems));
    html.push_str(&settings(&header.systems));
    html.push_str("<h3>Workloads and loads</h3>");
    let rows: Vec<Vec<String>> = report
        .comparisons
        .iter()
        .map(|one| vec![words::heading(&header.study, one), words::workload(one)])
        .collect();
    let head = ["load", "what clients do"].map(str::to_owned);
    html.push_str(&grid("Workloads and loads of the study", &head, &rows));
    if let Some(from) = &header.study.publication {
        let versions = from.versions.as_deref().unwrap_or("versions unknown");
        let text = format!("Published figures: {}, on {}; {versions}.", from.title, from.hardware);
        html.push_str(&paragraph("how", &text));
    }
    html.push_str("<h3>Machine</h3>");
    html.push_str(&machine(&header.environment));
    html.push_str(&machine_baselines(&header.environment));
    html
}

fn systems(all: &[SystemRecord]) -> String {
    type Cell = fn(&SystemRecord) -> String;
    let rows: [(&str, Cell); 10] = [
        ("product", |one| one.kind.clone()),
        ("version", |one| wording(&one.version)),
        ("built", |one| wording(&one.date)),
        ("nodes", |one| one.nodes.to_string()),
        ("source", |one| {
            let ran =
                if one.already_running { " (ran already, not started by bakeoff)" } else { "" };
            format!("{}{ran}", wording(&one.source))
        }),
        ("SHA-256", |one| wording(&one.sha256)),
        ("upgrade", |one| one.upgrade.as_ref().map(words::upgrade).unwrap_or_default()),
        ("replication", |one| one.guarantees.replication.clone()),
        ("acknowledged", |one| one.guarantees.acknowledged.clone()),
        ("reads", |one| one.guarantees.reads.clone()),
    ];
    let head: Vec<String> =
        std::iter::once(String::new()).chain(all.iter().map(|one| one.name.clone())).collect();
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|(label, cell)| {
            std::iter::once((*label).to_owned()).chain(all.iter().map(cell)).collect()
        })
        .filter(|row: &Vec<String>| row[1..].iter().any(|cell| !cell.is_empty()))
        .collect();
    grid("The systems as they ran", &head, &rows)
}

fn wording(text: &Option<String>) -> String {
    text.clone().unwrap_or_else(|| "unknown".to_owned())
}

/// Lists the parts of systems besides their own nodes; empty if there are none.
fn parts(all: &[SystemRecord]) -> String {
    let rows: Vec<Vec<String>> = all
        .iter()
        .flat_map(|one| one.parts.iter().map(move |part| (one, part)))
        .map(|(one, PartRecord { role, part })| {
            vec![
                one.name.clone(),
                role.clone(),
                part.kind.clone(),
                [Some(wording(&part.version)), part.upgrade.as_ref().map(words::upgrade)]
                    .into_iter()
                    .flatten()
                    .collect::<Vec<_>>()
                    .join(", "),
                part.nodes.to_string(),
                wording(&part.source),
                wording(&part.sha256),
            ]
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let head = ["system", "part", "product", "version", "nodes", "source", "SHA-256"];
    grid("Parts of the systems", &head.map(str::to_owned), &rows)
}

fn settings(all: &[SystemRecord]) -> String {
    let with_parts =
        all.iter().flat_map(|one| std::iter::once(one).chain(one.parts.iter().map(|it| &it.part)));
    let rows: Vec<Vec<String>> = with_parts
        .flat_map(|one| {
            one.settings.iter().map(move |set| {
                let reason =
                    if set.reason.is_empty() { "no reason given" } else { set.reason.as_str() };
                vec![one.name.clone(), set.name.clone(), set.value.clone(), reason.to_owned()]
            })
        })
        .collect();
    if rows.is_empty() {
        return paragraph("", "All settings are the systems' defaults.");
    }
    let head = ["system", "setting", "value", "why"].map(str::to_owned);
    grid("Non-default settings", &head, &rows)
}

/// Returns the rows of hardware and kernel; `unknown` if the kernel does not report a value.
fn hardware(of: &Hardware) -> Vec<(&'static str, String)> {
    let known = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".to_owned());
    let number = |value: Option<u32>| known(&value.map(|value| value.to_string()));
    let smt = of.smt.map(|is| if is { "two CPUs share a core" } else { "off" }.to_owned());
    let mut rows = vec![
        ("frequency governor", known(&of.governor)),
        ("simultaneous multithreading", known(&smt)),
        ("NUMA nodes", number(of.numa_nodes)),
        ("virtual machine", known(&of.hypervisor)),
        ("container", known(&of.container)),
        ("disk", known(&of.disk_model)),
        ("the disk's write cache", known(&of.disk_write_cache)),
        ("clock source", known(&of.clock_source)),
        ("cgroup version", number(of.cgroup_version)),
    ];
    let mitigations = of.mitigations.iter().map(|(name, state)| format!("{name}: {state}"));
    let mitigations = mitigations.collect::<Vec<_>>().join("; ");
    rows.push(match mitigations.is_empty() {
        true => ("CPU vulnerabilities", "none reported by the kernel".to_owned()),
        false => ("CPU vulnerabilities", mitigations),
    });
    rows
}

fn machine(of: &Environment) -> String {
    let micros = |value: Option<f64>| {
        value.map_or("not measured".to_owned(), |value| format!("{} µs", figure_text(value)))
    };
    let yes = |is: bool| if is { "yes" } else { "no" };
    let shared = yes(of.shared_with_servers);
    let rows = [
        ("processor", of.cpu_model.clone()),
        ("CPUs", of.cpus.to_string()),
        ("memory", ByteCount(of.memory_bytes).to_string()),
        ("kernel", of.kernel.clone()),
        ("file system of the servers' data", of.file_system.clone()),
        ("free space there", ByteCount(of.disk_free_bytes).to_string()),
        ("1 KiB synced to disk, median", micros(of.disk_sync_median_us)),
        ("1 KiB synced to disk, p99", micros(of.disk_sync_p99_us)),
        ("limit of open files", count_text(of.open_files_max)),
        ("generator threads", of.generator_threads.to_string()),
        ("generator and servers share the CPUs", shared.to_owned()),
        ("machine shared with other work (`--shared-machine`)", yes(of.shared_machine).to_owned()),
    ];
    let hardware = of.hardware.iter().flat_map(hardware);
    let rows: Vec<Vec<String>> = rows
        .into_iter()
        .chain(hardware)
        .map(|(label, value)| vec![label.to_owned(), value])
        .collect();
    grid("The machine", &["".to_owned(), "value".to_owned()], &rows)
}

/// Shows the baseline of the machine, or of each of the run's machines.
fn machine_baselines(of: &Environment) -> String {
    if of.machines.is_empty() {
        let title = "Machine baseline, measured before the first trial";
        return machine_baseline(title, of);
    }
    let each = of.machines.iter().map(|machine| {
        let title =
            format!("Machine baseline of {}, measured before the first trial", machine.name);
        machine_baseline(&title, &machine.environment)
    });
    each.collect()
}

fn machine_baseline(title: &str, of: &Environment) -> String {
    let Some(machine_baseline) = &of.machine_baseline else { return String::new() };
    let appends = machine_baseline.appends.iter().map(|one| {
        let what = format!("durable appends of {}", ByteCount(machine_baseline.append_bytes));
        vec![what, one.clients.to_string(), figure_text(one.per_second), "–".into(), "–".into()]
    });
    let trips = machine_baseline.round_trips.iter().map(|one| {
        let cpu = |value: f64| format!("{} µs", figure_text(value));
        vec![
            "round trips over loopback".to_owned(),
            one.clients.to_string(),
            figure_text(one.per_second),
            cpu(one.generator_cpu_us),
            cpu(one.server_cpu_us),
        ]
    });
    let rows: Vec<Vec<String>> = appends.chain(trips).collect();
    let head = ["what", "clients", "per second", "generator CPU each", "server CPU each"];
    grid(title, &head.map(str::to_owned), &rows)
}
