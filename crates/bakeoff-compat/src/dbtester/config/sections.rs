//! Walks a configuration's tree, section by section.

use std::collections::BTreeMap;

use bakeoff_core::study::{PlacedEntry, PlacedNode};

use super::{
    Analysis, Benchmark, ClientFiles, Config, Group, Image, LocatedValue, Node, Plot, Reporter,
    ResultFile, Section, Steps, WorkType, refuse, unknown,
};
use crate::dbtester::{Database, Product};

const CLIENT: &str = "config_client_machine_initial";
/// The misspelling is dbtester's own.
const GROUPS: &str = "datatbase_id_to_config_client_machine_agent_control";
const ANALYSES: &str = "datatbase_id_to_config_analyze_machine_initial";
const AGENT_PORT: u16 = 3500;

const TOP_FIELDS: [&str; 10] = [
    "test_title",
    "test_description",
    CLIENT,
    "all_database_id_list",
    GROUPS,
    ANALYSES,
    "analyze_all_aggregated_output",
    "analyze_plot_path_prefix",
    "analyze_plot_list",
    "analyze_readme",
];
const ETCD_FLAGS: [&str; 2] = ["snapshot_count", "quota_size_bytes"];
const ZOOKEEPER_FLAGS: [&str; 8] = [
    "java_d_jute_max_buffer",
    "java_xms",
    "java_xmx",
    "tick_time",
    "init_limit",
    "sync_limit",
    "snap_count",
    "max_client_connections",
];
const BENCHMARK_FIELDS: [&str; 10] = [
    "type",
    "request_number",
    "connection_number",
    "client_number",
    "connection_client_numbers",
    "rate_limit_requests_per_second",
    "same_key",
    "key_size_bytes",
    "value_size_bytes",
    "stale_read",
];
const STEP_FIELDS: [&str; 4] =
    ["step1_start_database", "step2_stress_database", "step3_stop_database", "step4_upload_logs"];

pub(super) fn config(reporter: &mut Reporter<'_>, root: &PlacedNode) -> Config {
    let top = Section::open(reporter, "the configuration", &root.at, root, &TOP_FIELDS);
    let mut compared = Vec::new();
    for id in top.texts(reporter, "all_database_id_list") {
        match Database::find(&id.value) {
            Some(database) if !compared.contains(&database) => compared.push(database),
            Some(_) => reporter.sink.add(&id.at, format!("`{}` is listed twice", id.value)),
            None => unknown(reporter, &id.at, &id.value),
        }
    }
    let mut groups: Vec<Group> = by_database(reporter, &top, GROUPS)
        .into_iter()
        .map(|(database, entry)| group(reporter, database, entry))
        .collect();
    if groups.is_empty() && reporter.sink.is_empty() {
        let at = top.place(GROUPS);
        reporter.sink.hint(&at, format!("`{GROUPS}` has no database"), "there is nothing to run");
    }
    groups.iter().for_each(|group| refuse(reporter, group));
    let rank = |database| compared.iter().position(|one| *one == database).unwrap_or(usize::MAX);
    groups.sort_by_key(|group| rank(group.database));
    let analyses = by_database(reporter, &top, ANALYSES)
        .into_iter()
        .map(|(database, entry)| (database, analysis(reporter, database, entry)))
        .collect();
    let all = top.section(
        reporter,
        "analyze_all_aggregated_output",
        &["all_aggregated_output_path_csv", "all_aggregated_output_path_txt"],
    );
    let readme = top.section(reporter, "analyze_readme", &["output_path", "images"]);
    let images =
        readme.list(reporter, "images").iter().filter_map(|node| image(reporter, node)).collect();
    let plots =
        top.list(reporter, "analyze_plot_list").iter().map(|node| plot(reporter, node)).collect();
    Config {
        title: top.text(reporter, "test_title"),
        description: top.text(reporter, "test_description"),
        client: client(reporter, &top),
        groups,
        analyses,
        compared,
        all_csv: all.text(reporter, "all_aggregated_output_path_csv"),
        all_txt: all.text(reporter, "all_aggregated_output_path_txt"),
        plot_folder: top.text(reporter, "analyze_plot_path_prefix"),
        plots,
        readme: readme.text(reporter, "output_path"),
        images,
    }
}

/// Returns the entries of a mapping keyed by database, in the order of the file.
fn by_database<'a>(
    reporter: &mut Reporter<'_>,
    top: &Section<'a>,
    field: &str,
) -> Vec<(Database, &'a PlacedEntry)> {
    let known: Vec<&str> = Database::ALL.iter().map(|one| one.id()).collect();
    let Some(entry) = top.entry(field) else { return Vec::new() };
    // Ids are not fields. The caller refuses unknown ones, as dbtester does.
    let all: Vec<&str> = match &entry.node.value {
        bakeoff_core::study::PlacedValue::Map(entries) => {
            entries.iter().map(|one| one.key.as_str()).chain(known).collect()
        }
        _ => known,
    };
    let section = Section::open(reporter, format!("`{field}`"), &entry.key_at, &entry.node, &all);
    let found = section.entries().iter().filter_map(|one| match Database::find(&one.key) {
        Some(database) => Some((database, one)),
        None => {
            unknown(reporter, &one.key_at, &one.key);
            None
        }
    });
    found.collect()
}

fn client(reporter: &mut Reporter<'_>, top: &Section<'_>) -> ClientFiles {
    let mut known = vec![
        "path_prefix",
        "log_path",
        "google_cloud_project_name",
        "google_cloud_storage_key_path",
        "google_cloud_storage_bucket_name",
        "google_cloud_storage_sub_directory",
    ];
    known.extend(ResultFile::OF_CLIENT.map(ResultFile::field));
    let section = top.section(reporter, CLIENT, &known);
    let named = |reporter: &mut Reporter<'_>, file: ResultFile| {
        Some(section.text(reporter, file.field())).filter(|name| !name.is_empty())
    };
    let names = ResultFile::OF_CLIENT
        .map(|file| (file, named(reporter, file).unwrap_or_else(|| file.usual_name())));
    ClientFiles {
        prefix: LocatedValue {
            value: section.text(reporter, "path_prefix"),
            at: section.place("path_prefix"),
        },
        names: BTreeMap::from(names),
        bucket_folder: section.text(reporter, "google_cloud_storage_sub_directory"),
    }
}

fn group(reporter: &mut Reporter<'_>, database: Database, entry: &PlacedEntry) -> Group {
    let id = database.id();
    let known = [
        "database_description",
        "peer_ips",
        "database_port_to_connect",
        "agent_port_to_connect",
        id,
        "benchmark_options",
        "benchmark_steps",
    ];
    let section = Section::open(reporter, format!("`{id}`"), &entry.key_at, &entry.node, &known);
    let database_port =
        section.port(reporter, "database_port_to_connect", database.product().default_port());
    let agent_port = section.port(reporter, "agent_port_to_connect", AGENT_PORT);
    let nodes: Vec<Node> = section
        .texts(reporter, "peer_ips")
        .into_iter()
        .map(|LocatedValue { value: host, at }| Node { host, at, database_port, agent_port })
        .collect();
    if nodes.is_empty() {
        let what = format!("`{id}` has no `peer_ips`");
        reporter.sink.hint(&section.at, what, "add `peer_ips: [127.0.0.1]`, one address per node");
    }
    let names: &[&'static str] = match database.product() {
        Product::Etcd => &ETCD_FLAGS,
        Product::Zookeeper => &ZOOKEEPER_FLAGS,
        Product::Consul | Product::Zetcd | Product::Cetcd => &[],
    };
    let given = section.section(reporter, id, names);
    let flags = names.iter().filter_map(|name| {
        let value = match name.starts_with("java_x") {
            true => given.text(reporter, name),
            false => match given.whole(reporter, name) {
                0 => String::new(),
                number => number.to_string(),
            },
        };
        (!value.is_empty()).then(|| (*name, LocatedValue { value, at: given.place(name) }))
    });
    let flags = flags.collect();
    Group {
        database,
        at: entry.key_at.clone(),
        description: section.text(reporter, "database_description"),
        nodes,
        flags,
        benchmark: benchmark(reporter, &section),
        steps: steps(reporter, &section),
    }
}

fn benchmark(reporter: &mut Reporter<'_>, group: &Section<'_>) -> Benchmark {
    let section = group.section(reporter, "benchmark_options", &BENCHMARK_FIELDS);
    let word = section.text(reporter, "type");
    let work = WorkType::ALL.into_iter().find(|one| one.word() == word);
    Benchmark {
        work: LocatedValue { value: work, at: section.place("type") },
        requests: section.placed(reporter, "request_number"),
        connections: section.placed(reporter, "connection_number"),
        clients: section.placed(reporter, "client_number"),
        steps: section.numbers(reporter, "connection_client_numbers"),
        rate: section.placed(reporter, "rate_limit_requests_per_second"),
        same_key: section.flag(reporter, "same_key"),
        key_size: section.placed(reporter, "key_size_bytes"),
        value_size: section.placed(reporter, "value_size_bytes"),
        stale_read: section.flag(reporter, "stale_read"),
    }
}

fn steps(reporter: &mut Reporter<'_>, group: &Section<'_>) -> Steps {
    let section = group.section(reporter, "benchmark_steps", &STEP_FIELDS);
    let [start, stress, stop, upload] = STEP_FIELDS
        .map(|name| LocatedValue { value: section.flag(reporter, name), at: section.place(name) });
    Steps { start, stress, stop, upload }
}

fn analysis(reporter: &mut Reporter<'_>, database: Database, entry: &PlacedEntry) -> Analysis {
    const SERVERS: &str = "server_system_metrics_interpolated_path_list";
    let mut known = vec!["path_prefix", SERVERS];
    known.extend(ResultFile::OF_ANALYSIS.map(ResultFile::field));
    let name = format!("the analysis of `{}`", database.id());
    let section = Section::open(reporter, name, &entry.key_at, &entry.node, &known);
    let prefix = section.text(reporter, "path_prefix").trim().to_owned();
    let prefixed = |path: String| match prefix.is_empty() {
        true => path,
        false => format!("{prefix}-{path}"),
    };
    let mut paths = BTreeMap::new();
    for file in ResultFile::OF_ANALYSIS {
        let name = section.text(reporter, file.field());
        let name = if name.is_empty() { file.usual_name() } else { name };
        paths.insert(file, prefixed(name));
    }
    let servers = section.texts(reporter, SERVERS).into_iter().map(|path| prefixed(path.value));
    Analysis { paths, servers: servers.collect() }
}

fn plot(reporter: &mut Reporter<'_>, node: &PlacedNode) -> Plot {
    let known = ["column", "x_axis", "y_axis", "output_path_csv", "output_path_list"];
    let section = Section::open(reporter, "a plot", &node.at, node, &known);
    Plot {
        column: LocatedValue {
            value: section.text(reporter, "column"),
            at: section.place("column"),
        },
        x_axis: section.text(reporter, "x_axis"),
        y_axis: section.text(reporter, "y_axis"),
    }
}

fn image(reporter: &mut Reporter<'_>, node: &PlacedNode) -> Option<Image> {
    let section = Section::open(reporter, "an image", &node.at, node, &["title", "path", "type"]);
    let local = match section.text(reporter, "type").as_str() {
        "local" => true,
        "remote" => false,
        other => {
            let what = format!("`type` of an image must be `local` or `remote`, not `{other}`");
            reporter.sink.add(&section.place("type"), what);
            return None;
        }
    };
    Some(Image {
        title: section.text(reporter, "title"),
        path: section.text(reporter, "path"),
        local,
    })
}
