//! Measures the figures and draws the picture of `docs/machines.md`: a coordinator's memory and CPU time by the number of
//! machines.
//!
//! Output goes to the folder `BAKEOFF_SCALE`; `BAKEOFF_PROGRAM` is an optimised build. All hosts share this machine's
//! CPUs, so loads are small: the coordinator's part grows with machines.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::{Cost, load_of, study};
use crate::support::hosts::Hosts;
use crate::support::skip::SkipReason;

/// Servers and generators of each run.
const SIZES: [(usize, usize); 8] =
    [(3, 1), (3, 2), (3, 4), (3, 8), (3, 12), (3, 16), (3, 20), (9, 20)];
/// Seconds under load.
const LOAD: u64 = 20;
/// Goals per generator: bytes, and percent of a core.
const MEMORY_AIM: f64 = (2 << 20) as f64;
const CPU_AIM: f64 = 0.2;

/// A run's figures.
struct Point {
    servers: usize,
    generators: usize,
    memory: f64,
    /// Percent of a core under load, of the coordinator and of its `ssh` processes.
    cpu: f64,
    carriers_cpu: f64,
    /// CPU time of the whole run, in seconds.
    cpu_seconds: f64,
    carriers_memory: f64,
}

pub(super) fn take(program: &Path, out: &Path) -> Result<(), SkipReason> {
    let most = SIZES.iter().map(|(servers, generators)| servers + generators).max();
    let hosts = Hosts::bare(most.unwrap_or_default())?;
    let file = hosts.dir().join("study.yaml");
    let mut points = Vec::new();
    for (servers, generators) in SIZES {
        fs::write(&file, study(servers, LOAD)).unwrap();
        let numbers: Vec<usize> = (1..=servers + generators).collect();
        let (of_servers, of_generators) = numbers.split_at(servers);
        let places = hosts.places(of_servers, of_generators);
        keep_only(&places, servers + generators);
        let cost = Cost::watch(&hosts, program, &file, &places);
        let load = load_of(&hosts);
        points.push(Point {
            servers,
            generators,
            memory: cost.memory as f64,
            cpu: percent(&cost.cpu, load),
            carriers_cpu: percent(&cost.carriers_cpu, load),
            cpu_seconds: cost.cpu.last().map_or(0.0, |(_, used)| *used),
            carriers_memory: cost.carriers_memory as f64,
        });
        write(out, &points);
    }
    Ok(())
}

/// Keeps only the first machines of a places file: the run would also connect to unused hosts.
fn keep_only(places: &Path, machines: usize) {
    let text = fs::read_to_string(places).unwrap();
    let of_others = |line: &str| {
        let name = line.trim_start().split(':').next().unwrap_or_default();
        name.strip_prefix('h')
            .and_then(|name| name.parse().ok())
            .is_some_and(|n: usize| n > machines)
    };
    let kept: Vec<&str> = text.lines().filter(|line| !of_others(line)).collect();
    fs::write(places, kept.join("\n") + "\n").unwrap();
}

/// Returns the percent of a core used between two times.
fn percent(looks: &[(f64, f64)], (from, to): (f64, f64)) -> f64 {
    let within: Vec<_> = looks.iter().filter(|(at, _)| (from..=to).contains(at)).collect();
    match (within.first(), within.last()) {
        (Some(first), Some(last)) if last.0 > first.0 => {
            100.0 * (last.1 - first.1) / (last.0 - first.0)
        }
        _ => f64::NAN,
    }
}

fn write(out: &Path, points: &[Point]) {
    let mut csv = String::from(
        "servers,generators,memory_bytes,cpu_percent_under_load,cpu_seconds,carriers_memory_bytes,\
         carriers_cpu_percent_under_load\n",
    );
    for point in points {
        let Point { servers, generators, memory, cpu, cpu_seconds, .. } = point;
        let (carriers, carriers_cpu) = (point.carriers_memory, point.carriers_cpu);
        writeln!(
            csv,
            "{servers},{generators},{memory},{cpu:.2},{cpu_seconds:.2},{carriers},{carriers_cpu:.2}"
        )
        .unwrap();
    }
    fs::write(out.join("scale.csv"), csv).unwrap();
    let mut svg = String::from(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 760 320\" font-family=\"sans-serif\" \
         font-size=\"12\" role=\"img\">\n<title>A coordinator's memory and CPU time by its generators</title>\n\
         <style>text{fill:#555}.axis{stroke:#999;fill:none}.aim{stroke:#c60;fill:none;stroke-dasharray:5 4}\
         .aim-text{fill:#c60}.seen{fill:#06c}.nine{fill:none;stroke:#06c;stroke-width:2}\
         @media(prefers-color-scheme:dark){text{fill:#bbb}.aim,.aim-text{stroke:#f93}.aim-text{stroke:none;fill:#f93}\
         .seen{fill:#6af}.nine{stroke:#6af}}</style>\n",
    );
    let mib = f64::from(1 << 20);
    panel(
        &mut svg,
        50.0,
        "memory at most, MiB",
        points,
        |point| point.memory / mib,
        MEMORY_AIM / mib,
    );
    panel(&mut svg, 430.0, "CPU under load, % of a core", points, |point| point.cpu, CPU_AIM);
    svg.push_str(
        "<text x=\"380\" y=\"316\" text-anchor=\"middle\">full: 3 servers (canaries); hollow: 9 (etcd)</text>\n</svg>\n",
    );
    fs::write(out.join("scale.svg"), svg).unwrap();
}

/// Draws one figure over the number of generators, with a line from the first point that grows by the goal.
fn panel(
    svg: &mut String,
    left: f64,
    title: &str,
    points: &[Point],
    of: impl Fn(&Point) -> f64,
    aim: f64,
) {
    let (top, width, height) = (40.0, 290.0, 220.0);
    let Some(first) = points.first() else { return };
    let widest = SIZES.iter().map(|(_, generators)| *generators).max().unwrap_or(1) as f64;
    let base = of(first);
    let aimed = |generators: f64| base + aim * (generators - 1.0);
    let highest = points.iter().map(&of).fold(aimed(widest), f64::max) * 1.1;
    let x = |generators: f64| left + width * generators / widest;
    let y = |value: f64| top + height * (1.0 - value / highest);
    let bottom = top + height;
    writeln!(svg, "<text x=\"{left}\" y=\"22\" font-size=\"14\">{title}</text>").unwrap();
    writeln!(svg, "<path class=\"axis\" d=\"M{left} {top}V{bottom}H{:.1}\"/>", left + width)
        .unwrap();
    for generators in [1.0, 4.0, 8.0, 12.0, 16.0, 20.0] {
        let at = x(generators);
        writeln!(
            svg,
            "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{generators}</text>",
            bottom + 18.0
        )
        .unwrap();
    }
    let middle = left + width / 2.0;
    let below = bottom + 38.0;
    writeln!(svg, "<text x=\"{middle}\" y=\"{below}\" text-anchor=\"middle\">generators</text>")
        .unwrap();
    for part in [0.0, 0.5, 1.0] {
        let value = highest / 1.1 * part;
        let digits = if highest < 20.0 { 1 } else { 0 };
        writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{value:.digits$}</text>",
            left - 6.0,
            y(value) + 4.0
        )
        .unwrap();
    }
    writeln!(
        svg,
        "<path class=\"aim\" d=\"M{:.1} {:.1}L{:.1} {:.1}\"/>",
        x(1.0),
        y(aimed(1.0)),
        x(widest),
        y(aimed(widest))
    )
    .unwrap();
    writeln!(
        svg,
        "<text class=\"aim-text\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">aim: {aim} each</text>",
        x(widest * 0.7),
        y(aimed(widest * 0.7)) - 10.0
    )
    .unwrap();
    for point in points {
        let class = if point.servers == first.servers { "seen" } else { "nine" };
        writeln!(
            svg,
            "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\"><title>{} + {}: {:.2}</title></circle>",
            x(point.generators as f64),
            y(of(point)),
            point.servers,
            point.generators,
            of(point)
        )
        .unwrap();
    }
}
