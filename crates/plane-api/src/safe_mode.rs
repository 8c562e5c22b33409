//! Safe mode of a restored control plane: its state at start, the endpoint that reports it and the one that ends it.

use std::sync::Arc;

use access::Action;
use api::safe_mode::{CONFIRM_PATH, Held, STATE_PATH};
use api::work::WORKS;
use apiserver::extension::{Extension, ExtensionRequest};
use apiserver::request::RequestInfo;
use apiserver::respond::{self, Body};
use apiserver::server::Server;
use async_trait::async_trait;
use http::{Method, Response};
use object::Status;
use object::request::Verb;
use plane_state::SafeMode;
use serde_json::{Value, json};

use crate::restored;

/// Reads whether the control plane was restored and sets the mode until that is confirmed. Call it before controllers start.
pub async fn begin(server: &Arc<Server>, mode: &SafeMode) -> Result<(), Status> {
    let found = restored::find(server).await?;
    let Some(found) = found else {
        mode.set(false);
        return Ok(());
    };
    mode.set(true);
    tracing::warn!(
        restored_at = found.restored_at,
        origin = found.imported_from.as_deref().unwrap_or("a backup"),
        origin_read_at = found.backup_taken_at,
        "safe mode: this control plane was restored or imported and removes nothing from members until that is confirmed \
         (`flotilla restore status`, `flotilla restore confirm`)"
    );
    let (server, mode) = (Arc::clone(server), mode.clone());
    tokio::spawn(async move {
        restored::follow(&server, &mode).await;
        if !mode.is_on() {
            tracing::info!("safe mode ended: members are synced with the control plane");
        }
    });
    Ok(())
}

/// Adds the changes that safe mode holds back to the explanation of an object.
pub fn annotate(mode: &SafeMode, described: &str, answer: &mut Value) {
    if !mode.is_on() {
        return;
    }
    let held: Vec<Held> = mode.held().into_iter().filter(|held| held.object == described).collect();
    let mut text = answer["text"].as_str().unwrap_or_default().trim_end().to_owned();
    text.push_str(
        "\n\nThe control plane is in safe mode after a restore or an import: see `flotilla restore status`.\n",
    );
    for Held { cluster, action, object } in &held {
        text.push_str(&format!("  held back by safe mode: {action} {object} in cluster {cluster}\n"));
    }
    if let Some(answer) = answer.as_object_mut() {
        answer.insert("text".to_owned(), Value::String(text));
        answer.insert("safeMode".to_owned(), json!({"on": true, "held": held}));
    }
}

/// Reports to every authenticated caller whether the control plane is in safe mode, because agents depend on it. The changes it
/// holds back are reported to callers with permission to list Works.
pub struct SafeModeState {
    pub mode: SafeMode,
}

#[async_trait]
impl Extension for SafeModeState {
    fn handles(&self, path: &str) -> bool {
        path == STATE_PATH
    }

    fn judges_callers(&self) -> bool {
        true
    }

    async fn serve(&self, server: &Arc<Server>, request: ExtensionRequest) -> Result<Response<Body>, Status> {
        if request.incoming.method != Method::GET {
            return Err(Status::new(405, "MethodNotAllowed", "read the state of safe mode with GET"));
        }
        if !request.user.groups.iter().any(|group| group == "system:authenticated") {
            return Err(Status::new(401, "Unauthorized", "Unauthorized"));
        }
        if !self.mode.is_known() {
            return Err(Status::unavailable("the control plane is starting"));
        }
        let restored = restored::find(server).await?;
        let mut state = json!({"on": self.mode.is_on()});
        let listing = RequestInfo::on(WORKS.gvr(), Verb::List);
        if server.authorize(&request.user, &listing).await.is_ok() {
            state["restored"] = serde_json::to_value(&restored).map_err(Status::internal)?;
            state["held"] = serde_json::to_value(self.mode.held()).map_err(Status::internal)?;
            state["refusals"] = self.mode.refusals().into();
        }
        Ok(respond::value(200, &state))
    }
}

/// The right to end safe mode. A right to post to all paths of the plane does not include it.
const CONFIRM_VERB: &str = "confirm";

/// Ends safe mode for users with permission to post to its path and the verb `confirm` on it.
pub struct SafeModeConfirm {
    pub mode: SafeMode,
}

#[async_trait]
impl Extension for SafeModeConfirm {
    fn handles(&self, path: &str) -> bool {
        path == CONFIRM_PATH
    }

    async fn serve(&self, server: &Arc<Server>, request: ExtensionRequest) -> Result<Response<Body>, Status> {
        if request.incoming.method != Method::POST {
            return Err(Status::new(405, "MethodNotAllowed", "confirm with POST"));
        }
        let action = Action::NonResource { verb: CONFIRM_VERB, path: CONFIRM_PATH };
        server.require(&request.user, &action).await?;
        restored::confirm(server, &self.mode).await?;
        tracing::warn!(user = request.user.name, "safe mode ended by a user");
        Ok(respond::value(200, &json!({"on": false})))
    }
}
