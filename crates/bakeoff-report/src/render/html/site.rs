//! A site of many runs: an index of studies and machines, and a page for each study on each machine.
//!
//! Figures of different machines are never on one page, so that no filter can compare them. A record that was altered
//! is listed without figures.
//!
//! Not here: reading records, writing files (the binary), the report of a single run (`html`).

use std::collections::BTreeSet;
use std::fmt::Write as _;

use bakeoff_core::record::{Record, RunHeader};
use bakeoff_core::units::{plural, share_text};

use super::page::{Section, escape, list, page, paragraph};
use super::svg::LOOKS;
use crate::compare::is_same_machine;
use crate::document::line::shortened;
use crate::document::report::Report;
use crate::document::words;
use crate::model::contender::Contender;
use crate::model::quantity::{Point, Quantity};

/// Most studies on a page of the index.
const ON_A_PAGE: usize = 200;
/// Longest verdict in the index.
const VERDICT: usize = 141;

/// A run as a site shows it.
#[derive(Debug)]
pub struct SiteRun {
    /// Folder of its files below `runs`.
    folder: String,
    header: RunHeader,
    when: String,
    verdict: String,
    machine: String,
    /// The command that repeats it.
    again: String,
    /// Kinds with their versions: `etcd 3.6.1`.
    versions: Vec<String>,
    figures: Vec<SystemRow>,
    /// How the record was altered.
    altered: Option<String>,
    trials: String,
}

/// A system under one workload and load.
#[derive(Debug)]
struct SystemRow {
    place: String,
    system: String,
    /// Kind and version.
    version: String,
    look: usize,
    rate: Option<f64>,
    rate_text: String,
    p99: String,
    errors: String,
    trials: String,
    valid: bool,
}

impl SiteRun {
    /// Summarizes a run. `folder`: name of the folder with its files; `altered`: evidence that the record was changed.
    pub fn new(record: &Record, folder: String, altered: Option<String>) -> Self {
        let report = Report::new(record);
        let versions: Vec<String> = record.header.systems.iter().map(version).collect();
        let mut figures = Vec::new();
        for of in report.comparisons.iter().filter(|one| one.was_run()) {
            figures.extend(of.contenders.iter().map(|one| row(&of.place(), of.tail(None), one)));
        }
        let valid = record.trials.iter().filter(|one| one.invalid_because().is_empty()).count();
        Self {
            folder,
            when: words::when(&report),
            verdict: report.headline.verdict.clone(),
            machine: words::machine_in_brief(&record.header.environment),
            again: report.header.repeat_command(),
            versions,
            figures: if altered.is_some() { Vec::new() } else { figures },
            altered,
            trials: format!("{valid} of {} valid", plural(record.trials.len() as u64, "trial")),
            header: record.header.clone(),
        }
    }
}

fn version(of: &bakeoff_core::record::SystemRecord) -> String {
    format!("{} {}", of.kind, of.version.as_deref().unwrap_or("of unknown version"))
}

fn row(place: &str, tail: Point, of: &Contender) -> SystemRow {
    let rate = match of.shown(Quantity::HighestRate).value() {
        Some(rate) => Some(rate),
        None => of.shown(Quantity::ThroughputMean).value(),
    };
    let valid = of.valid_count() > 0;
    let errors = of.error_share().filter(|&share| share > 0.0);
    SystemRow {
        place: place.to_owned(),
        system: of.system.clone(),
        version: version(&of.is),
        look: of.look % LOOKS,
        rate: rate.filter(|_| valid),
        rate_text: match (valid, rate) {
            (true, Some(rate)) => bakeoff_core::units::figure_text(rate),
            (true, None) => "–".to_owned(),
            (false, _) => "not valid".to_owned(),
        },
        p99: match valid {
            true => {
                let quantity = Quantity::Response(tail);
                format!("{} {}", tail.name(), quantity.short(of.shown(quantity)))
            }
            false => "–".to_owned(),
        },
        errors: errors.map_or_else(|| "none".to_owned(), share_text),
        trials: crate::document::tables::trials(of),
        valid,
    }
}

/// A file of a site.
#[derive(Debug)]
pub struct SitePage {
    /// Path below the site's folder.
    pub path: String,
    /// HTML.
    pub html: String,
}

/// Returns the pages besides those of single runs. `unread`: records that could not be read, with the reasons.
pub fn pages(runs: &[SiteRun], unread: &[String]) -> Vec<SitePage> {
    let groups = groups(runs);
    let mut pages: Vec<SitePage> = groups
        .iter()
        .map(|group| SitePage { path: group.path(), html: group_page(group) })
        .collect();
    let parts: Vec<&[Group<'_>]> = match groups.is_empty() {
        true => vec![&[]],
        false => groups.chunks(ON_A_PAGE).collect(),
    };
    for (number, part) in parts.iter().enumerate() {
        let html = index(part, &groups, runs.len(), unread, (number, parts.len()));
        pages.push(SitePage { path: index_path(number), html });
    }
    pages
}

fn index_path(number: usize) -> String {
    match number {
        0 => "index.html".to_owned(),
        number => format!("index-{}.html", number + 1),
    }
}

/// The runs of one study on one machine, the newest first.
struct Group<'a> {
    study: &'a str,
    /// Number of the machine, from 1.
    machine: usize,
    runs: Vec<&'a SiteRun>,
}

impl Group<'_> {
    fn path(&self) -> String {
        format!("{}-machine-{}.html", slug(self.study), self.machine)
    }

    fn newest(&self) -> &SiteRun {
        self.runs[0]
    }

    fn versions(&self) -> BTreeSet<&str> {
        self.runs.iter().flat_map(|run| &run.versions).map(String::as_str).collect()
    }
}

/// Keeps what is safe in a file's name.
pub fn slug(text: &str) -> String {
    let safe = |char: char| match char {
        'a'..='z' | '0'..='9' | '-' => char,
        'A'..='Z' => char.to_ascii_lowercase(),
        _ => '-',
    };
    let slug: String = text.chars().take(60).map(safe).collect();
    if slug.is_empty() { "run".to_owned() } else { slug }
}

/// Groups runs by machine and study. Two studies of one name that differ have a page each.
fn groups(runs: &[SiteRun]) -> Vec<Group<'_>> {
    let mut machines: Vec<&SiteRun> = Vec::new();
    let mut groups: Vec<Group<'_>> = Vec::new();
    for run in runs {
        let same = |one: &&SiteRun| is_same_machine(&one.header, &run.header);
        let machine = machines.iter().position(same).unwrap_or_else(|| {
            machines.push(run);
            machines.len() - 1
        }) + 1;
        let study = slug(&run.header.study.name);
        match groups.iter_mut().find(|one| one.machine == machine && slug(one.study) == study) {
            Some(group) => group.runs.push(run),
            None => {
                let study = run.header.study.name.as_str();
                groups.push(Group { study, machine, runs: vec![run] });
            }
        }
    }
    for group in &mut groups {
        group.runs.sort_by(|a, b| b.header.started.cmp(&a.header.started));
    }
    groups.sort_by(|a, b| a.study.cmp(b.study).then(a.machine.cmp(&b.machine)));
    groups
}

/// Returns a filter: a select with all values.
fn filter<'a>(name: &str, label: &str, values: impl Iterator<Item = &'a str>) -> String {
    let values: BTreeSet<&str> = values.collect();
    let options: String = values
        .iter()
        .map(|value| format!("<option value=\"{0}\">{0}</option>", escape(value)))
        .collect();
    format!(
        "<label>{label} <select data-filter=\"{name}\"><option value=\"\">all</option>{options}</select></label> "
    )
}

fn index(
    part: &[Group<'_>],
    all: &[Group<'_>],
    runs: usize,
    unread: &[String],
    (number, of): (usize, usize),
) -> String {
    let studies: BTreeSet<&str> = all.iter().map(|one| one.study).collect();
    let machines: BTreeSet<usize> = all.iter().map(|one| one.machine).collect();
    let mut top = format!(
        "<h1 id=\"verdict\">{} of {} on {}</h1>",
        plural(runs as u64, "run"),
        match studies.len() {
            1 => "1 study".to_owned(),
            count => format!("{count} studies"),
        },
        plural(machines.len() as u64, "machine")
    );
    top.push_str(&paragraph(
        "support",
        "Each line is a study on one machine. Figures of different machines are never compared.",
    ));
    let machine = |of: &Group<'_>| format!("machine {}", of.machine);
    let names: Vec<String> = part.iter().map(machine).collect();
    let _ = write!(
        top,
        "<p class=\"filters\">{}{}{}</p>",
        filter("study", "Study", part.iter().map(|one| one.study)),
        filter("version", "System and version", part.iter().flat_map(Group::versions)),
        filter("machine", "Machine", names.iter().map(String::as_str))
    );
    top.push_str(
        "<div class=\"scroll all\" tabindex=\"0\" role=\"region\" aria-label=\"Studies\"><table>\
         <caption>Studies by machine</caption><thead><tr><th scope=\"col\">study</th>\
         <th scope=\"col\">machine</th><th scope=\"col\">systems</th><th scope=\"col\" class=\"n\">runs</th>\
         <th scope=\"col\">newest verdict</th></tr></thead><tbody>",
    );
    for group in part {
        let newest = group.newest();
        let versions: Vec<&str> = group.versions().into_iter().collect();
        let verdict = match &newest.altered {
            Some(_) => "altered record: no figures".to_owned(),
            None => brief(&newest.verdict),
        };
        let _ = write!(
            top,
            "<tr data-row data-study=\"{study}\" data-version=\"{attribute}\" data-machine=\"{machine}\">\
             <th scope=\"row\"><a href=\"{path}\">{study}</a></th><td>{machine}</td><td>{shown}</td>\
             <td class=\"n\">{runs}</td><td>{verdict}</td></tr>",
            study = escape(group.study),
            attribute = escape(&versions.join("|")),
            machine = machine(group),
            path = group.path(),
            shown = escape(&brief(&versions.join(", "))),
            runs = group.runs.len(),
            verdict = escape(&verdict)
        );
    }
    top.push_str("</tbody></table></div>");
    if of > 1 {
        let links: String = (0..of)
            .filter(|other| *other != number)
            .map(|other| format!("<a href=\"{}\">page {}</a> ", index_path(other), other + 1))
            .collect();
        let _ = write!(top, "<p>Page {} of {of}. {links}</p>", number + 1);
    }
    let shown: BTreeSet<usize> = part.iter().map(|one| one.machine).collect();
    top.push_str("<h2 id=\"machines\">Machines</h2><dl class=\"machines\">");
    for machine in shown {
        let Some(group) = all.iter().find(|one| one.machine == machine) else { continue };
        let text = escape(&group.newest().machine);
        let _ = write!(top, "<div><dt>machine {machine}</dt><dd>{text}</dd></div>");
    }
    top.push_str("</dl>");
    if number == 0 && !unread.is_empty() {
        let _ = write!(top, "<h2>Not shown <span>{}</span></h2>", unread.len());
        let first: Vec<String> = unread.iter().take(UNREAD).map(|one| brief(one)).collect();
        top.push_str(&list("notes", &first));
        if unread.len() > UNREAD {
            top.push_str(&paragraph("small", &format!("and {} more", unread.len() - UNREAD)));
        }
    }
    page("Runs of bakeoff", &top, &[], "")
}

/// Most unreadable records that the index names.
const UNREAD: usize = 50;

fn brief(text: &str) -> String {
    shortened(text, VERDICT)
}

/// Returns the page of a study on one machine.
fn group_page(of: &Group<'_>) -> String {
    let newest = of.newest();
    let title = words::title(&newest.header.study);
    let mut top = format!(
        "<p class=\"study\"><span><a href=\"index.html\">All studies</a></span><span>machine {}</span></p>\
         <h1 id=\"verdict\">{}</h1>",
        of.machine,
        escape(&title)
    );
    let support = format!("{}. {}.", plural(of.runs.len() as u64, "run"), newest.machine);
    top.push_str(&paragraph("support", &support));
    let figures = || of.runs.iter().flat_map(|run| &run.figures);
    let _ = write!(
        top,
        "<p class=\"filters\">{}{}{}</p>",
        filter("place", "Load", figures().map(|one| one.place.as_str())),
        filter("system", "System", figures().map(|one| one.system.as_str())),
        filter("version", "Version", figures().map(|one| one.version.as_str()))
    );
    let places: BTreeSet<&str> = figures().map(|one| one.place.as_str()).collect();
    for place in places {
        top.push_str(&place_table(of, place));
    }
    let section = Section::plain("runs", "Runs", run_table(of));
    page(&title, &top, &[section], "")
}

/// Returns the table of one workload and load: a row for each system of each run.
fn place_table(of: &Group<'_>, place: &str) -> String {
    let rows = || {
        of.runs.iter().flat_map(|run| {
            run.figures.iter().filter(|one| one.place == place).map(move |one| (*run, one))
        })
    };
    let most = rows().filter_map(|(_, one)| one.rate).fold(0.0, f64::max);
    let name = escape(place);
    let mut html = format!(
        "<div data-row data-place=\"{name}\"><h2>{name}</h2><div class=\"scroll all\" tabindex=\"0\" \
         role=\"region\" aria-label=\"{name}\"><table><caption>Medians of the valid trials, newest run \
         first</caption><thead><tr><th scope=\"col\">run</th><th scope=\"col\">system</th>\
         <th scope=\"col\">version</th><th scope=\"col\" class=\"n\">per second</th><th scope=\"col\">of the most\
         </th><th scope=\"col\" class=\"n\">response</th><th scope=\"col\" class=\"n\">errors</th>\
         <th scope=\"col\" class=\"n\">trials</th></tr></thead><tbody>"
    );
    for (run, one) in rows() {
        let share = one.rate.filter(|_| most > 0.0).map_or(0.0, |rate| rate / most * 100.0);
        let class = if one.valid { "n" } else { "n alarm" };
        let _ = write!(
            html,
            "<tr data-row data-system=\"{system}\" data-version=\"{version}\"><td>\
             <a href=\"runs/{folder}/report.html\">{when}</a></td><td>{system}</td><td>{version}</td>\
             <td class=\"{class}\">{rate}</td><td><svg class=\"rate s{look}\" aria-hidden=\"true\">\
             <rect class=\"fill\" width=\"{share:.1}%\" height=\"100%\"/></svg></td><td class=\"n\">{p99}</td>\
             <td class=\"n\">{errors}</td><td class=\"n\">{trials}</td></tr>",
            system = escape(&one.system),
            version = escape(&one.version),
            folder = run.folder,
            when = escape(moment(&run.when)),
            rate = escape(&one.rate_text),
            look = one.look,
            p99 = escape(&one.p99),
            errors = escape(&one.errors),
            trials = escape(&one.trials)
        );
    }
    html.push_str("</tbody></table></div></div>");
    html
}

/// Returns a moment without what follows it: `27 November 2026, 20:24 UTC`.
fn moment(when: &str) -> &str {
    let end = when.match_indices(',').nth(1).map_or(when.len(), |(at, _)| at);
    &when[..end]
}

/// Returns the table of runs with their records and the commands that repeat them.
fn run_table(of: &Group<'_>) -> String {
    let mut html = String::from(
        "<div class=\"scroll all\" tabindex=\"0\" role=\"region\" aria-label=\"All runs\"><table>\
         <caption>Runs, the newest first</caption><thead><tr><th scope=\"col\">run</th>\
         <th scope=\"col\">verdict</th><th scope=\"col\" class=\"n\">trials</th><th scope=\"col\">record</th>\
         <th scope=\"col\">repeat with</th></tr></thead><tbody>",
    );
    for run in &of.runs {
        let folder = &run.folder;
        let when = escape(&run.when);
        let (when, verdict) = match &run.altered {
            Some(why) => {
                (when, format!("<span class=\"alarm\">altered record: {}</span>", escape(why)))
            }
            None => {
                (format!("<a href=\"runs/{folder}/report.html\">{when}</a>"), escape(&run.verdict))
            }
        };
        let _ = write!(
            html,
            "<tr><td>{when}</td><td>{verdict}</td><td class=\"n\">{}</td><td>\
             <a href=\"runs/{folder}/record.jsonl\">record.jsonl</a></td><td><code>{}</code></td></tr>",
            escape(&run.trials),
            escape(&run.again)
        );
    }
    html.push_str("</tbody></table></div>");
    html
}
