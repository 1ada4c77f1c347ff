//! Parses the section `kubernetes` of a places file: pods in place of machines.
//!
//! Not here: creating the pods (the binary's `machines::kubernetes`).

use super::{text, texts, unknown_fields};
use crate::study::{DiagnosticSink, PlacedEntry, PlacedValue};

/// Describes the pods of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kubernetes {
    /// Context of the user's configuration; `None` means the current one.
    pub context: Option<String>,
    /// Existing namespace for the run's objects; `None` creates a new one.
    pub namespace: Option<String>,
    /// Path of `kubectl`; default `kubectl`.
    pub kubectl: String,
    /// Number of pods that take servers.
    pub servers: u32,
    /// Number of pods that generate load.
    pub generators: u32,
    /// Image with a shell and a C library in which bakeoff can run.
    pub image: String,
    /// Image of each kind whose servers run in their own image, in separate pods.
    pub images: Vec<(String, String)>,
    /// Image with this bakeoff as `/bakeoff`, from which pods copy it; `None` uploads it.
    pub agent_image: Option<String>,
    /// Pull policy: `Always`, `IfNotPresent`, `Never`.
    pub pull: String,
    /// True if pods may share a node if there are too few.
    pub share_nodes: bool,
    /// Labels that nodes must have.
    pub node_selector: Vec<(String, String)>,
    /// Taints of nodes that pods tolerate.
    pub tolerations: Vec<Toleration>,
    /// Secrets of the namespace for pulling images.
    pub image_pull_secrets: Vec<String>,
    /// Priority class of the pods.
    pub priority_class: Option<String>,
    /// Annotations of the pods.
    pub annotations: Vec<(String, String)>,
    /// Storage class of the data volumes; `None` uses an `emptyDir`.
    pub storage_class: Option<String>,
    /// Size of each data volume.
    pub storage: String,
    /// CPUs of each pod, as request and limit.
    pub cpu: Option<String>,
    /// Memory of each pod, as request and limit.
    pub memory: Option<String>,
}

/// Describes a tolerated taint in the syntax of `kubectl taint`: `dedicated=bench:NoSchedule`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toleration {
    /// Key of the taint.
    pub key: String,
    /// Value; `None` tolerates any.
    pub value: Option<String>,
    /// Effect; `None` tolerates all.
    pub effect: Option<String>,
}

impl Toleration {
    /// Parses `KEY`, `KEY=VALUE`, `KEY:EFFECT` or `KEY=VALUE:EFFECT`.
    fn parse(text: &str) -> Option<Self> {
        let (taint, effect) = match text.split_once(':') {
            None => (text, None),
            Some((taint, effect)) => (taint, Some(effect)),
        };
        if effect.is_some_and(|effect| !EFFECTS.contains(&effect)) {
            return None;
        }
        let (key, value) = match taint.split_once('=') {
            None => (taint, None),
            Some((key, value)) => (key, Some(value)),
        };
        (!key.is_empty()).then(|| Self {
            key: key.to_owned(),
            value: value.map(str::to_owned),
            effect: effect.map(str::to_owned),
        })
    }
}

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
const FIELDS: [&str; 19] = [
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
    "tolerations",
    "image-pull-secrets",
    "priority-class",
    "annotations",
    "storage-class",
    "storage",
    "cpu",
    "memory",
];
const PULLS: [&str; 3] = ["Always", "IfNotPresent", "Never"];
/// Maximum number of pods for servers, and for generators.
const PODS_MAX: u32 = 500;

/// Parses the section. Returns `None` if it is not a mapping, or a field is wrong.
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
    let priority = word("priority-class");
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
    let annotations = words("annotations", "a mapping of annotations");
    let mut several =
        |name: &str, of: &str| field(name).map_or(Some(Vec::new()), |entry| texts(entry, of, sink));
    let taints = "a list of taints: `[dedicated=bench:NoSchedule]`";
    let (tolerated, secrets) =
        (several("tolerations", taints), several("image-pull-secrets", "a list of names"));
    let mut toleration = |text: &String| {
        let read = Toleration::parse(text);
        if let (None, Some(entry)) = (&read, field("tolerations")) {
            sink.refuse(&entry.node.at, "tolerations", taints, &format!("`{text}`"));
        }
        read
    };
    let tolerations: Option<Vec<Toleration>> =
        tolerated.and_then(|all| all.iter().map(&mut toleration).collect());
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
        tolerations: tolerations?,
        image_pull_secrets: secrets?,
        priority_class: priority?,
        annotations: annotations?,
        storage_class: class?,
        storage: storage?.unwrap_or_else(|| "10Gi".to_owned()),
        cpu: cpu?,
        memory: memory?,
    })
}

/// Parses a Kubernetes quantity: `500m`, `2`, `4Gi`.
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
    /// Returns the CPUs of each pod.
    pub fn cpus(&self) -> Option<f64> {
        self.cpu.as_deref().and_then(quantity)
    }

    /// Returns the memory of each pod in bytes.
    pub fn memory_bytes(&self) -> Option<u64> {
        self.memory.as_deref().and_then(quantity).map(|bytes| bytes as u64)
    }
}

/// Parses a mapping of words to words.
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
    use super::Toleration;
    use crate::places::Places;

    #[test]
    fn node_and_registry_requirements_are_parsed() {
        let text = "kubernetes: {tolerations: ['dedicated=bench:NoSchedule', spot], image-pull-secrets: [ours], \
                    priority-class: low, annotations: {team: storage}}";
        let pods = Places::parse("p.yaml", text).unwrap().kubernetes.unwrap();
        let bench = Toleration {
            key: "dedicated".to_owned(),
            value: Some("bench".to_owned()),
            effect: Some("NoSchedule".to_owned()),
        };
        let spot = Toleration { key: "spot".to_owned(), value: None, effect: None };
        assert_eq!(pods.tolerations, [bench, spot]);
        assert_eq!(
            (pods.image_pull_secrets, pods.priority_class),
            (vec!["ours".to_owned()], Some("low".to_owned()))
        );
        assert_eq!(pods.annotations, [("team".to_owned(), "storage".to_owned())]);
        let wrong = Places::parse("p.yaml", "kubernetes: {tolerations: ['a:Never']}").unwrap_err();
        let error = "must be a list of taints: `[dedicated=bench:NoSchedule]`, not `a:Never`";
        assert!(wrong.to_string().contains(error), "{wrong}");
        let wrong = Places::parse("p.yaml", "kubernetes: {image-pull-secrets: ours}").unwrap_err();
        assert!(wrong.to_string().contains("a list of names, not `ours`"), "{wrong}");
    }

    #[test]
    fn pods_are_parsed_with_defaults() {
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
    fn faults_of_pods_are_reported() {
        let check = |text: &str, wanted: &str| {
            let error = Places::parse("p.yaml", text).unwrap_err().to_string();
            assert!(error.contains(wanted), "{text}\n{error}");
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
