//! The section `kubernetes` of a places file: pods in place of machines.
//!
//! Not here: making the pods (the binary's `machines::kubernetes`).

use super::{text, unknown_fields};
use crate::study::{DiagnosticSink, PlacedEntry, PlacedValue};

/// The pods of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kubernetes {
    /// The context of the user's configuration; the current one where none is named.
    pub context: Option<String>,
    /// A namespace that is there, for the objects of the run; where none is named, one of its own is made.
    pub namespace: Option<String>,
    /// `kubectl`, or the path of another.
    pub kubectl: String,
    /// Pods that take servers.
    pub servers: u32,
    /// Pods that generate load.
    pub generators: u32,
    /// An image with a shell and a C library that bakeoff runs with.
    pub image: String,
    /// The image of each kind whose servers run in one of their own: they get pods for themselves.
    pub images: Vec<(String, String)>,
    /// An image with this bakeoff as `/bakeoff`, from which pods take it; it is sent where none is named.
    pub agent_image: Option<String>,
    /// `Always`, `IfNotPresent`, `Never`.
    pub pull: String,
    /// Whether pods may share a node where there are too few.
    pub share_nodes: bool,
    /// Labels that nodes must have.
    pub node_selector: Vec<(String, String)>,
    /// The class of the volumes for data, of their size; an `emptyDir` where none is named.
    pub storage_class: Option<String>,
    /// The size of such a volume.
    pub storage: String,
    /// CPUs of each pod, requested and at most.
    pub cpu: Option<String>,
    /// Memory of each pod, requested and at most.
    pub memory: Option<String>,
}

const FIELDS: [&str; 15] = [
    "context",
    "namespace",
    "kubectl",
    "servers",
    "generators",
    "image",
    "images",
    "agent-image",
    "image-pull",
    "share-nodes",
    "node-selector",
    "storage-class",
    "storage",
    "cpu",
    "memory",
];
const PULLS: [&str; 3] = ["Always", "IfNotPresent", "Never"];
/// Most pods of a kind.
const PODS_MAX: u32 = 500;

/// Reads the section. `None` when it is no mapping at all, or a field of it is wrong.
pub(super) fn read(entry: &PlacedEntry, sink: &mut DiagnosticSink<'_>) -> Option<Kubernetes> {
    let PlacedValue::Map(fields) = &entry.node.value else {
        sink.refuse(&entry.node.at, "kubernetes", "a mapping", &entry.node.seen("a mapping"));
        return None;
    };
    unknown_fields(fields, &FIELDS, "`kubernetes`", sink);
    let field = |name: &str| fields.iter().find(|field| field.key == name);
    let mut word = |name: &str| match field(name) {
        None => Some(None),
        Some(entry) => text(entry, "a word", sink).map(Some),
    };
    let (context, kubectl, image) = (word("context"), word("kubectl"), word("image"));
    let (agent_image, namespace) = (word("agent-image"), word("namespace"));
    let (class, storage) = (word("storage-class"), word("storage"));
    let (cpu, memory, pull) = (word("cpu"), word("memory"), word("image-pull"));
    let mut count = |name: &str, usual: u32| match field(name) {
        None => Some(usual),
        Some(entry) => {
            let read = entry.node.scalar().and_then(|text| text.parse::<u32>().ok());
            let read = read.filter(|count| (1..=PODS_MAX).contains(count));
            if read.is_none() {
                let wanted = format!("a number of pods from 1 to {PODS_MAX}");
                sink.refuse(&entry.node.at, name, &wanted, &entry.node.seen("a mapping"));
            }
            read
        }
    };
    let (servers, generators) = (count("servers", 3), count("generators", 1));
    let share_nodes = match field("share-nodes") {
        None => Some(false),
        Some(entry) => {
            let flag = entry.node.flag();
            if flag.is_none() {
                let seen = entry.node.seen("a mapping");
                sink.refuse(&entry.node.at, "share-nodes", "`true` or `false`", &seen);
            }
            flag
        }
    };
    let mut words = |name: &str, of: &str| {
        field(name).map_or(Some(Vec::new()), |entry| mapping(entry, of, sink))
    };
    let selector = words("node-selector", "a mapping of labels");
    let images = words("images", "a mapping of kinds to images");
    for (name, amount, unit) in [("cpu", &cpu, "CPUs: `2`, `500m`"), ("memory", &memory, "`4Gi`")] {
        if let (Some(Some(text)), Some(entry)) = (amount, field(name))
            && quantity(text).is_none()
        {
            let wanted = format!("an amount as Kubernetes takes it, {unit}");
            sink.refuse(&entry.node.at, name, &wanted, &entry.node.seen("a mapping"));
        }
    }
    let pull = pull?.unwrap_or_else(|| "IfNotPresent".to_owned());
    if let Some(entry) = field("image-pull")
        && !PULLS.contains(&pull.as_str())
    {
        let wanted = "`Always`, `IfNotPresent` or `Never`";
        sink.refuse(&entry.node.at, "image-pull", wanted, &entry.node.seen("a mapping"));
        return None;
    }
    Some(Kubernetes {
        context: context?,
        namespace: namespace?,
        kubectl: kubectl?.unwrap_or_else(|| "kubectl".to_owned()),
        servers: servers?,
        generators: generators?,
        image: image?
            .or_else(|| agent_image.clone().flatten())
            .unwrap_or_else(|| "debian:stable-slim".to_owned()),
        images: images?,
        agent_image: agent_image?,
        pull,
        share_nodes: share_nodes?,
        node_selector: selector?,
        storage_class: class?,
        storage: storage?.unwrap_or_else(|| "10Gi".to_owned()),
        cpu: cpu?,
        memory: memory?,
    })
}

/// Reads an amount as Kubernetes writes it: `500m`, `2`, `4Gi`.
fn quantity(text: &str) -> Option<f64> {
    const UNITS: [(&str, f64); 11] = [
        ("Ki", 1024.0),
        ("Mi", 1048576.0),
        ("Gi", 1073741824.0),
        ("Ti", 1099511627776.0),
        ("Pi", 1125899906842624.0),
        ("m", 0.001),
        ("k", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
        ("P", 1e15),
    ];
    let unit = UNITS.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)));
    let (number, factor) = unit.unwrap_or((text, 1.0));
    let number = number.parse::<f64>().ok()?;
    (number.is_finite() && number > 0.0).then_some(number * factor)
}

impl Kubernetes {
    /// The CPUs of each pod.
    pub fn cpus(&self) -> Option<f64> {
        self.cpu.as_deref().and_then(quantity)
    }

    /// The memory of each pod, in bytes.
    pub fn memory_bytes(&self) -> Option<u64> {
        self.memory.as_deref().and_then(quantity).map(|bytes| bytes as u64)
    }
}

/// Reads a mapping of words to words.
fn mapping(
    entry: &PlacedEntry,
    wanted: &str,
    sink: &mut DiagnosticSink<'_>,
) -> Option<Vec<(String, String)>> {
    let PlacedValue::Map(fields) = &entry.node.value else {
        let seen = entry.node.seen("a mapping");
        sink.refuse(&entry.node.at, &entry.key, wanted, &seen);
        return None;
    };
    let word = |field: &PlacedEntry| Some((field.key.clone(), text(field, "a word", sink)?));
    fields.iter().map(word).collect()
}

#[cfg(test)]
mod tests {
    use crate::places::Places;

    #[test]
    fn pods_are_read_with_what_is_usual() {
        let text = "kubernetes: {servers: 2, image: x/y:1, node-selector: {disk: nvme}, cpu: 2}";
        let places = Places::parse("p.yaml", text).unwrap();
        let pods = places.kubernetes.unwrap();
        assert_eq!((pods.servers, pods.generators, pods.image.as_str()), (2, 1, "x/y:1"));
        assert_eq!((pods.kubectl.as_str(), pods.pull.as_str()), ("kubectl", "IfNotPresent"));
        assert_eq!(pods.node_selector, [("disk".to_owned(), "nvme".to_owned())]);
        assert_eq!((pods.share_nodes, pods.cpus()), (false, Some(2.0)));
        let text = "kubernetes: {cpu: 250m, memory: 1.5Gi}";
        let pods = Places::parse("p.yaml", text).unwrap().kubernetes.unwrap();
        assert_eq!((pods.cpus(), pods.memory_bytes()), (Some(0.25), Some(3 << 29)));
        let text =
            "kubernetes: {images: {etcd: 'x/etcd:3'}, agent-image: x/bakeoff, namespace: bench}";
        let pods = Places::parse("p.yaml", text).unwrap().kubernetes.unwrap();
        assert_eq!(pods.images, [("etcd".to_owned(), "x/etcd:3".to_owned())]);
        assert_eq!(pods.agent_image.as_deref(), Some("x/bakeoff"));
        assert_eq!(pods.namespace.as_deref(), Some("bench"));
        assert!(Places::parse("p.yaml", "kubernetes: {}").unwrap().machines.is_empty());
    }

    #[test]
    fn faults_of_pods_are_told() {
        let check = |text: &str, wanted: &str| {
            let told = Places::parse("p.yaml", text).unwrap_err().to_string();
            assert!(told.contains(wanted), "{text}\n{told}");
        };
        check("kubernetes: 3", "`kubernetes` must be a mapping");
        check("kubernetes: {cpu: two}", "`cpu` must be an amount as Kubernetes takes it");
        check("kubernetes: {memory: 4GiB}", "`memory` must be an amount as Kubernetes takes it");
        check("kubernetes: {servers: 0}", "a number of pods from 1 to 500");
        check("kubernetes: {server: 3}", "unknown field `server` in `kubernetes`");
        check("kubernetes: {image-pull: often}", "`Always`, `IfNotPresent` or `Never`");
        check("kubernetes: {images: x}", "`images` must be a mapping of kinds to images");
        check("kubernetes: {share-nodes: 2}", "`share-nodes` must be `true` or `false`");
        check(
            "{kubernetes: {}, machines: {a: {here: true, servers: true, generator: true}}}",
            "either `machines` or `kubernetes`",
        );
    }
}
