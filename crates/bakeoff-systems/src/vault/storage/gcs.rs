//! Stores data in a bucket of Google Cloud Storage, emulated or real.

use bakeoff_core::study::{KindOption, OptionForm};
use serde_json::json;

use super::{Storage, high_availability};
use crate::gcs_emulator;

/// Bucket in an emulated service.
const BUCKET: &str = "vault";

pub(super) const STORAGE: Storage = Storage {
    name: "gcs",
    component: Some("gcs-emulator"),
    service: &["bucket", "credentials"],
    options: &[
        KindOption {
            name: "bucket",
            form: OptionForm::Text,
            meaning: "bucket in the real Google Cloud Storage, with `storage: gcs` and no part",
        },
        KindOption {
            name: "credentials",
            form: OptionForm::Text,
            meaning: "file with the credentials for that bucket",
        },
    ],
    settings: |context| high_availability(context).into_iter().collect(),
    config: |node, env| {
        if node.component.is_some() {
            env.push(("STORAGE_EMULATOR_HOST".to_owned(), format!("http://{}", node.entrance())));
        } else if let Some(file) = node.context.option("credentials") {
            // Nodes run in their own working directory, so make the path absolute.
            let file = std::path::absolute(file).unwrap_or_else(|_| file.into());
            let file = file.display().to_string();
            env.push(("GOOGLE_APPLICATION_CREDENTIALS".to_owned(), file));
        }
        let bucket = node.context.option("bucket").unwrap_or(BUCKET);
        json!({"bucket": bucket, "ha_enabled": node.high_availability()})
    },
    prepare: |_, component| {
        let entrance = component.nodes.last();
        entrance.map_or(Ok(()), |node| gcs_emulator::make_bucket(node, BUCKET))
    },
    ..Storage::PLAIN
};
