//! `cubbyhole_read` and `cubbyhole_write`: a secret that only the token that wrote it can read.
//!
//! Each token has its own cubbyhole. Nothing is mounted, and all requests use the run's token.

use serde_json::{Map, Value};

use super::{Action, Fields, Stage, Template, TestType, Trouble, body_of};
use crate::vault_benchmark::cleanup::CreatedObject;

struct Cubbyhole {
    action: Action,
    path: String,
}

pub(super) fn cubbyhole(fields: &Fields, action: Action) -> Box<dyn TestType> {
    let path = fields.text("path").filter(|path| !path.is_empty());
    Box::new(Cubbyhole { action, path: path.unwrap_or_else(|| "my-path".into()) })
}

impl TestType for Cubbyhole {
    fn set_up(&self, stage: &mut Stage<'_>) -> Result<Template, Trouble> {
        let path = format!("cubbyhole/{}-{}", self.path.trim_matches('/'), stage.name);
        let secret = Map::from_iter([("foo".to_owned(), Value::from("bar"))]);
        stage.ledger.note(CreatedObject::At(path.clone()));
        stage
            .write(&path, secret.clone())
            .map_err(|trouble| trouble.while_doing("cannot write the test's secret"))?;
        let (method, body) = match self.action {
            Action::Write => ("POST", body_of(secret)),
            Action::Read | Action::List => ("GET", String::new()),
        };
        let template = Template::fixed(method, format!("/v1/{path}"), body);
        Ok(template.with(stage.client.headers()))
    }
}
