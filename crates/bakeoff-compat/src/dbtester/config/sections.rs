//! Walks a configuration's tree, section by section.

use std::collections::BTreeMap;

use bakeoff_core::study::{PlacedEntry, PlacedNode};

use super::{
    Analysis, Benchmark, ClientFiles, Config, Group, Image, Located, Node, Plot, ResultFile,
    Section, Steps, Told, WorkType, refuse, unknown,
};
use crate::dbtester::{Database, Product};

const CLIENT: &str = "config_client_machine_initial";
/// dbtester's own spelling.
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

/// Reads the whole file.
pub(super) fn config(told: &mut Told<'_>, root: &PlacedNode) -> Config {
    let top = Section::open(told, "the configuration", &root.at, root, &TOP_FIELDS);
    let mut compared = Vec::new();
    for id in top.texts(told, "all_database_id_list") {
        match Database::find(&id.value) {
            Some(database) if !compared.contains(&database) => compared.push(database),
            Some(_) => told.sink.add(&id.at, format!("`{}` is listed twice", id.value)),
            None => unknown(told, &id.at, &id.value),
        }
    }
    let mut groups: Vec<Group> = by_database(told, &top, GROUPS)
        .into_iter()
        .map(|(database, entry)| group(told, database, entry))
        .collect();
    if groups.is_empty() && told.sink.is_empty() {
        let at = top.place(GROUPS);
        told.sink.hint(&at, format!("`{GROUPS}` has no database"), "there is nothing to run");
    }
    groups.iter().for_each(|group| refuse(told, group));
    let rank = |database| compared.iter().position(|one| *one == database).unwrap_or(usize::MAX);
    groups.sort_by_key(|group| rank(group.database));
    let analyses = by_database(told, &top, ANALYSES)
        .into_iter()
        .map(|(database, entry)| (database, analysis(told, database, entry)))
        .collect();
    let all = top.section(
        told,
        "analyze_all_aggregated_output",
        &["all_aggregated_output_path_csv", "all_aggregated_output_path_txt"],
    );
    let readme = top.section(told, "analyze_readme", &["output_path", "images"]);
    let images = readme.list(told, "images").iter().filter_map(|node| image(told, node)).collect();
    let plots = top.list(told, "analyze_plot_list").iter().map(|node| plot(told, node)).collect();
    Config {
        title: top.text(told, "test_title"),
        description: top.text(told, "test_description"),
        client: client(told, &top),
        groups,
        analyses,
        compared,
        all_csv: all.text(told, "all_aggregated_output_path_csv"),
        all_txt: all.text(told, "all_aggregated_output_path_txt"),
        plot_folder: top.text(told, "analyze_plot_path_prefix"),
        plots,
        readme: readme.text(told, "output_path"),
        images,
    }
}

/// Returns the entries of a mapping from databases, in the order of the file.
fn by_database<'a>(
    told: &mut Told<'_>,
    top: &Section<'a>,
    field: &str,
) -> Vec<(Database, &'a PlacedEntry)> {
    let known: Vec<&str> = Database::ALL.iter().map(|one| one.id()).collect();
    let Some(entry) = top.entry(field) else { return Vec::new() };
    // Ids are not fields: one that is unknown is refused, as dbtester does.
    let all: Vec<&str> = match &entry.node.value {
        bakeoff_core::study::PlacedValue::Map(entries) => {
            entries.iter().map(|one| one.key.as_str()).chain(known).collect()
        }
        _ => known,
    };
    let section = Section::open(told, format!("`{field}`"), &entry.key_at, &entry.node, &all);
    let found = section.entries().iter().filter_map(|one| match Database::find(&one.key) {
        Some(database) => Some((database, one)),
        None => {
            unknown(told, &one.key_at, &one.key);
            None
        }
    });
    found.collect()
}

fn client(told: &mut Told<'_>, top: &Section<'_>) -> ClientFiles {
    let mut known = vec![
        "path_prefix",
        "log_path",
        "google_cloud_project_name",
        "google_cloud_storage_key_path",
        "google_cloud_storage_bucket_name",
        "google_cloud_storage_sub_directory",
    ];
    known.extend(ResultFile::OF_CLIENT.map(ResultFile::field));
    let section = top.section(told, CLIENT, &known);
    let named = |told: &mut Told<'_>, file: ResultFile| {
        Some(section.text(told, file.field())).filter(|name| !name.is_empty())
    };
    let names = ResultFile::OF_CLIENT
        .map(|file| (file, named(told, file).unwrap_or_else(|| file.usual_name())));
    ClientFiles {
        prefix: Located {
            value: section.text(told, "path_prefix"),
            at: section.place("path_prefix"),
        },
        names: BTreeMap::from(names),
        bucket_folder: section.text(told, "google_cloud_storage_sub_directory"),
    }
}

fn group(told: &mut Told<'_>, database: Database, entry: &PlacedEntry) -> Group {
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
    let section = Section::open(told, format!("`{id}`"), &entry.key_at, &entry.node, &known);
    let database_port =
        section.port(told, "database_port_to_connect", database.product().default_port());
    let agent_port = section.port(told, "agent_port_to_connect", AGENT_PORT);
    let nodes: Vec<Node> = section
        .texts(told, "peer_ips")
        .into_iter()
        .map(|Located { value: host, at }| Node { host, at, database_port, agent_port })
        .collect();
    if nodes.is_empty() {
        let what = format!("`{id}` has no `peer_ips`");
        told.sink.hint(&section.at, what, "add `peer_ips: [127.0.0.1]`, an address for each node");
    }
    let names: &[&'static str] = match database.product() {
        Product::Etcd => &ETCD_FLAGS,
        Product::Zookeeper => &ZOOKEEPER_FLAGS,
        Product::Consul | Product::Zetcd | Product::Cetcd => &[],
    };
    let given = section.section(told, id, names);
    let flags = names.iter().filter_map(|name| {
        let value = match name.starts_with("java_x") {
            true => given.text(told, name),
            false => match given.whole(told, name) {
                0 => String::new(),
                number => number.to_string(),
            },
        };
        (!value.is_empty()).then(|| (*name, Located { value, at: given.place(name) }))
    });
    let flags = flags.collect();
    Group {
        database,
        at: entry.key_at.clone(),
        description: section.text(told, "database_description"),
        nodes,
        flags,
        benchmark: benchmark(told, &section),
        steps: steps(told, &section),
    }
}

fn benchmark(told: &mut Told<'_>, group: &Section<'_>) -> Benchmark {
    let section = group.section(told, "benchmark_options", &BENCHMARK_FIELDS);
    let word = section.text(told, "type");
    let work = WorkType::ALL.into_iter().find(|one| one.word() == word);
    Benchmark {
        work: Located { value: work, at: section.place("type") },
        requests: section.placed(told, "request_number"),
        connections: section.placed(told, "connection_number"),
        clients: section.placed(told, "client_number"),
        steps: section.numbers(told, "connection_client_numbers"),
        rate: section.placed(told, "rate_limit_requests_per_second"),
        same_key: section.flag(told, "same_key"),
        key_size: section.placed(told, "key_size_bytes"),
        value_size: section.placed(told, "value_size_bytes"),
        stale_read: section.flag(told, "stale_read"),
    }
}

fn steps(told: &mut Told<'_>, group: &Section<'_>) -> Steps {
    let section = group.section(told, "benchmark_steps", &STEP_FIELDS);
    let [start, stress, stop, upload] = STEP_FIELDS
        .map(|name| Located { value: section.flag(told, name), at: section.place(name) });
    Steps { start, stress, stop, upload }
}

fn analysis(told: &mut Told<'_>, database: Database, entry: &PlacedEntry) -> Analysis {
    const SERVERS: &str = "server_system_metrics_interpolated_path_list";
    let mut known = vec!["path_prefix", SERVERS];
    known.extend(ResultFile::OF_ANALYSIS.map(ResultFile::field));
    let name = format!("the analysis of `{}`", database.id());
    let section = Section::open(told, name, &entry.key_at, &entry.node, &known);
    let prefix = section.text(told, "path_prefix").trim().to_owned();
    let prefixed = |path: String| match prefix.is_empty() {
        true => path,
        false => format!("{prefix}-{path}"),
    };
    let mut paths = BTreeMap::new();
    for file in ResultFile::OF_ANALYSIS {
        let name = section.text(told, file.field());
        let name = if name.is_empty() { file.usual_name() } else { name };
        paths.insert(file, prefixed(name));
    }
    let servers = section.texts(told, SERVERS).into_iter().map(|path| prefixed(path.value));
    Analysis { paths, servers: servers.collect() }
}

fn plot(told: &mut Told<'_>, node: &PlacedNode) -> Plot {
    let known = ["column", "x_axis", "y_axis", "output_path_csv", "output_path_list"];
    let section = Section::open(told, "a plot", &node.at, node, &known);
    Plot {
        column: Located { value: section.text(told, "column"), at: section.place("column") },
        x_axis: section.text(told, "x_axis"),
        y_axis: section.text(told, "y_axis"),
    }
}

fn image(told: &mut Told<'_>, node: &PlacedNode) -> Option<Image> {
    let section = Section::open(told, "an image", &node.at, node, &["title", "path", "type"]);
    let local = match section.text(told, "type").as_str() {
        "local" => true,
        "remote" => false,
        other => {
            let what = format!("`type` of an image must be `local` or `remote`, not `{other}`");
            told.sink.add(&section.place("type"), what);
            return None;
        }
    };
    Some(Image { title: section.text(told, "title"), path: section.text(told, "path"), local })
}
