//! Runs NGINX that answers every request with the same bytes, by itself or behind a gateway.
//!
//! The default of 43 bytes is the smallest GIF, which NGINX generates itself (`empty_gif`). Any other size is a file.
//! The answer is as cheap as possible, so that a gateway in front of it dominates the measurement.
//!
//! Not here: the gateway (`access_gateway`), the configuration that all NGINX nodes share (`config`).

pub(crate) mod config;
pub(crate) mod recipe;
pub(crate) mod status;

use bakeoff_core::record::Guarantees;
use bakeoff_core::study::{self, Kind, KindOption, Operation, OptionForm};
use bakeoff_core::units::ByteCount;
use bakeoff_host::ports::Allocator;
use bakeoff_host::{FileMode, HostError, NodeFile};

use super::declaration::{Declaration, GuaranteeRules, Origin};
use super::{
    ASKED, Access, ClusterStatus, DescribeContext, Description, NotReady, System, http_session,
    option, plain_value, setting,
};
use config::Plan;
use status::Status;

/// Registry entry.
pub(crate) const SYSTEM: &dyn System = &Nginx;

#[derive(Debug)]
pub(crate) struct Nginx;

const OPTIONS: &[KindOption] = &[
    KindOption {
        name: "body-size",
        form: OptionForm::Size,
        meaning: "length of the response body; a GIF of 43 bytes when absent",
    },
    KindOption {
        name: "tls",
        form: OptionForm::Word(&["on", "off"]),
        meaning: "whether clients use TLS, with a certificate generated at the start; off when absent",
    },
    KindOption {
        name: "workers",
        form: OptionForm::Number,
        meaning: "number of worker processes; 1 when absent, NGINX's default",
    },
];

/// Size of the GIF in bytes.
const GIF: u64 = 43;
const BODY_SIZE_MAX: u64 = 1 << 20;

impl System for Nginx {
    fn declares(&self) -> Declaration {
        Declaration {
            guarantees: GuaranteeRules { guarantees, ..GuaranteeRules::default() },
            ..Declaration::new(
                Kind {
                    operations: &[Operation::Request],
                    options: OPTIONS,
                    sound,
                    ..Kind::new("nginx")
                },
                Origin::Recipe(&recipe::RECIPE),
            )
        }
    }

    fn describe(
        &self,
        context: &DescribeContext<'_>,
        ports: &mut Allocator,
    ) -> Result<Description, HostError> {
        let location = context.location(0);
        let (client, status) = (ports.take_for(location)?, ports.take_for(location)?);
        let size = body_size(context.system);
        let mut own = Vec::new();
        let mut files = Vec::new();
        let server = match size {
            GIF => "location / { empty_gif; }",
            size => {
                let reason = "it need not open its only file for each request";
                own.push(setting("open_file_cache", "max=4", reason));
                files.push(NodeFile {
                    path: "html/body".into(),
                    contents: (0..size).map(|place| b'a' + (place % 26) as u8).collect(),
                    mode: FileMode::Readable,
                });
                "root html;\n    \
                 open_file_cache max=4;\n    \
                 location / { try_files /body =500; }"
            }
        };
        own.extend(context.option("body-size").map(|size| setting("body-size", size, ASKED)));
        let plan = Plan {
            workers: context.option("workers").unwrap_or("1"),
            client,
            status,
            tls: context.option("tls") == Some("on"),
            modules: &[],
            http: "",
            server,
            status_server: "",
        };
        let description = plan.describe(context, context.installed()?, files, own)?;
        description.memory.keep(Status::at(location.at(status)));
        Ok(description)
    }

    fn probe(&self, nodes: &[Access]) -> Result<ClusterStatus, NotReady> {
        for node in nodes {
            if let Some(status) = node.memory.get::<Status>() {
                status.requests(node)?;
            }
            let (status, _) = http_session::ask(node, "GET", "/")?;
            if status != 200 && node.memory.get::<Status>().is_some() {
                return Err(format!("`{}` answered {status}", node.name).into());
            }
        }
        Ok(ClusterStatus::default())
    }
}

/// Returns the guarantees under these options.
fn guarantees(_: &study::System) -> Guarantees {
    Guarantees {
        replication: "none: its answer never changes".into(),
        acknowledged: "with the status that the workload expects".into(),
        reads: "the same bytes for every path".into(),
        ..Guarantees::default()
    }
}

fn body_size(system: &study::System) -> u64 {
    let size = option(system, "body-size").map(|size| plain_value(&OptionForm::Size, size));
    size.and_then(|size| size.parse().ok()).unwrap_or(GIF)
}

fn sound(system: &study::System) -> Result<(), (String, String)> {
    if body_size(system) > BODY_SIZE_MAX {
        return Err((
            format!("its answer is longer than {}", ByteCount(BODY_SIZE_MAX)),
            "write `body-size: 64KiB`".to_owned(),
        ));
    }
    workers(system)
}

/// Checks the number of workers.
pub(crate) fn workers(system: &study::System) -> Result<(), (String, String)> {
    let number = option(system, "workers").and_then(|workers| workers.parse::<u64>().ok());
    match number {
        None | Some(1..=1024) => Ok(()),
        Some(_) => Err((
            "`workers` must be 1 to 1024".to_owned(),
            "write `workers: 1`, or leave it out".to_owned(),
        )),
    }
}
