//! Stores data in a table of DynamoDB, emulated or real.

use bakeoff_core::study::{KindOption, OptionForm};
use serde_json::json;

use super::{Storage, high_availability};
use crate::dynamodb_emulator;

/// Table in an emulated service.
const TABLE: &str = "vault";
/// Region for an emulated service, which accepts any.
const REGION: &str = "us-east-1";

pub(super) const STORAGE: Storage = Storage {
    name: "dynamodb",
    component: Some("dynamodb-emulator"),
    service: &["table", "region"],
    options: &[
        KindOption {
            name: "table",
            form: OptionForm::Text,
            meaning: "table in the real DynamoDB, with `storage: dynamodb` and no part; its \
                      credentials come from environment variables such as AWS_ACCESS_KEY_ID",
        },
        KindOption { name: "region", form: OptionForm::Text, meaning: "region of that table" },
    ],
    settings: |context| high_availability(context).into_iter().collect(),
    config: |node, env| {
        let mut table = json!({
            "table": node.context.option("table").unwrap_or(TABLE),
            "region": node.context.option("region").unwrap_or(REGION),
            "ha_enabled": node.high_availability(),
        });
        if node.component.is_some() {
            table["endpoint"] = json!(format!("http://{}", node.entrance()));
            env.push(("AWS_ACCESS_KEY_ID".to_owned(), "emulated".to_owned()));
            env.push(("AWS_SECRET_ACCESS_KEY".to_owned(), "emulated".to_owned()));
        } else {
            for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"] {
                env.extend(std::env::var(name).ok().map(|value| (name.to_owned(), value)));
            }
        }
        table
    },
    prepare: |_, component| {
        let entrance = component.nodes.last();
        entrance.map_or(Ok(()), |node| dynamodb_emulator::make_table(node, TABLE))
    },
    ..Storage::PLAIN
};
