//! The systems under test: control planes, and members that are real, light, or in pull mode.

pub mod karmada;
pub mod light_member;
pub mod plane;
pub mod real_member;
pub mod watch;

use std::time::Duration;

use serde_json::{Value, json};

use crate::wire::{Call, ServerTarget};

/// Creates a namespace if it does not exist.
pub async fn make_namespace(target: &ServerTarget, name: &str) -> anyhow::Result<()> {
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    create(target, "/api/v1/namespaces", &body).await
}

pub async fn create(target: &ServerTarget, path: &str, body: &Value) -> anyhow::Result<()> {
    let mut connection = target.connect().await?;
    connection.read(Call::create(path.to_owned(), body.to_string().into())).await?;
    Ok(())
}

pub async fn get(target: &ServerTarget, path: &str) -> anyhow::Result<Value> {
    let mut connection = target.connect().await?;
    Ok(serde_json::from_slice(&connection.read(Call::get(path.to_owned())).await?)?)
}

/// Polls until the condition holds or the time limit is reached.
pub async fn eventually(limit: Duration, mut holds: impl AsyncFnMut() -> bool) -> bool {
    let wait = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(limit, wait).await.is_ok()
}

pub fn has_condition(object: &Value, kind: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    conditions.iter().any(|condition| condition["type"] == kind && condition["status"] == "True")
}
