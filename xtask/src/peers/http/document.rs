//! Writes the section of `docs/performance.md` for a comparison.

use super::super::summary::{Spread, mib, table};
use super::super::{output_of, when_and_where};
use super::bounds::{Finding, subject};
use super::tools::Tool;
use super::{Case, HttpRuns, Results, Run, Stand};
use crate::Failure;

pub(super) fn section(measured: &HttpRuns, findings: &[Finding]) -> String {
    let mut parts = vec![measured.machine.clone(), conditions(measured)];
    let rows: Vec<Vec<String>> = findings
        .iter()
        .map(|finding| {
            vec![finding.bound.clone(), finding.seen.clone(), finding.verdict().to_owned()]
        })
        .collect();
    parts.push(table(&["bound", "seen: median (least–most of the rounds)", ""], &rows));
    for (&case, results) in &measured.cases {
        parts.push(format!("### {}", title(case)));
        parts.push(if case == Case::Open { open(results) } else { costs(case, results) });
        parts.extend(left_out(results));
    }
    parts.join("\n\n")
}

fn title(case: Case) -> &'static str {
    match case {
        Case::Plain16 => "Plain HTTP, 16 connections (`plain-16`)",
        Case::Plain64 => "Plain HTTP, 64 connections (`plain-64`)",
        Case::Tls => "TLS, 64 connections (`tls-64`)",
        Case::Script => "A Lua script, 64 connections (`script-64`)",
        Case::Http2 => {
            "HTTP/2 without TLS, 64 connections, one request at a time on each (`http2-64`)"
        }
        Case::Open => "Open load, 10,000 requests per second, 64 clients (`open`)",
        Case::Many => "10,000 connections (`10000`)",
    }
}

/// Describes date, machine and versions.
pub(super) fn machine(stand: &Stand) -> Result<String, Failure> {
    let place = when_and_where(&stand.allowed)?;
    let bakeoff = output_of(&stand.bakeoff.to_string_lossy(), &["--version"])?;
    let pinned = match stand.cpus {
        Some(_) => "NGINX on one, the generator on another",
        None => "shared by NGINX and the generator",
    };
    let version = |tool: Tool| {
        let program = stand.programs[&tool].as_ref().ok()?;
        Some(format!("{} {}", tool.name(), program.version))
    };
    let foreign = Tool::ALL.into_iter().filter(|tool| !tool.is_ours() && *tool != Tool::Baseline);
    let others: Vec<String> = foreign.filter_map(version).collect();
    Ok(format!(
        "Measured on {place} ({pinned}); {bakeoff}; NGINX {}; {}.",
        stand.nginx.version,
        others.join(", ")
    ))
}

fn conditions(measured: &HttpRuns) -> String {
    let run = measured.cases.values().filter(|results| !results.runs.is_empty());
    let mut shares: Vec<f64> = run.map(|results| results.others * 100.0).collect();
    shares.sort_by(f64::total_cmp);
    let others = match (shares.first(), shares.last()) {
        (Some(least), Some(most)) if *most >= 1.0 => format!(
            " Other processes took {least:.0} % to {most:.0} % of the machine's CPU time meanwhile, \
             which disturbs all tools."
        ),
        _ => String::new(),
    };
    let realtime = match measured.realtime {
        true => {
            " NGINX and the generators had a real-time priority, so that no other process took their CPUs."
        }
        false => "",
    };
    format!(
        "{} rounds, {} s per run; figures are medians (least–most).{realtime}{others}",
        measured.rounds, measured.seconds
    )
}

fn costs(case: Case, results: &Results) -> String {
    let reference = if case == Case::Http2 { Tool::H2load } else { Tool::Wrk };
    let mut tools: Vec<Tool> = results.runs.keys().copied().collect();
    let median = |tool| results.spread(tool, Run::cpu_us).map_or(f64::MAX, |spread| spread.median);
    tools.sort_by(|&a, &b| median(a).total_cmp(&median(b)));
    let text =
        |spread: Option<Spread>, decimals| spread.map_or(String::new(), |s| s.text(decimals));
    let rows: Vec<Vec<String>> = tools
        .into_iter()
        .map(|tool| {
            let name = tool.name();
            vec![
                if tool == subject(results) { format!("**{name}**") } else { name.to_owned() },
                text(results.spread(tool, |run| run.reported.per_second), 0),
                text(results.spread(tool, Run::cpu_us), 2),
                text(results.spread(tool, Run::user_us), 2),
                text(results.spread(tool, Run::system_us), 2),
                text(results.ratio(tool, reference, Run::cpu_us), 2),
                text(results.spread(tool, |run| mib(run.used.rss_bytes_max)), 1),
            ]
        })
        .collect();
    let relative = format!("CPU, of {}'s", reference.name());
    let head =
        ["", "requests/s", "CPU µs/request", "user", "system", &relative, "most memory, MiB"];
    table(&head, &rows)
}

fn open(results: &Results) -> String {
    let schedule_lag = |tool, at: usize| {
        let schedule_lag = move |run: &Run| {
            run.reported.schedule_lag.map_or(f64::NAN, |schedule_lag| schedule_lag[at])
        };
        results.spread(tool, schedule_lag).map_or(String::new(), |spread| spread.text(0))
    };
    let of = |tool, figure: fn(&Run) -> f64, decimals| {
        results.spread(tool, figure).map_or(String::new(), |spread| spread.text(decimals))
    };
    let rows = [Tool::Load, Tool::Precise].map(|tool| {
        vec![
            tool.name().to_owned(),
            schedule_lag(tool, 0),
            schedule_lag(tool, 1),
            schedule_lag(tool, 2),
            of(tool, |run| run.reported.per_second, 1),
            of(tool, Run::cpu_us, 2),
        ]
    });
    let head = [
        "",
        "schedule lag, p50, µs",
        "p99, µs",
        "most, µs",
        "requests per second",
        "CPU µs/request",
    ];
    table(&head, &rows)
}

fn left_out(results: &Results) -> Option<String> {
    let without: Vec<String> =
        results.without.iter().map(|(tool, why)| format!("{} ({why})", tool.name())).collect();
    (!without.is_empty()).then(|| format!("Without a figure: {}.", without.join("; ")))
}
