//! The capacity that agents report of their members: the endpoint that takes the reports, and their use by every replica.
//!
//! Reports are in the store, so that a restart finds them and all replicas see them. They are no API objects: nothing but
//! the endpoint writes them, and it lets an agent report for its own cluster only.

mod follow;

use std::sync::Arc;

use api::capacity::REPORT_PATH;
use api::cluster::{CLUSTERS, SyncMode};
use apiserver::extension::{Extension, ExtensionRequest};
use apiserver::respond::{self, Body};
use apiserver::server::Server;
use apiserver::storage::status_of_store;
use async_trait::async_trait;
use bytes::Bytes;
use http::{Method, Response};
use object::Status;
use plane_state::capacity_report::{self, ReportError};
use reconcile::{Mirror, ObjectKey};
use serde_json::json;
use store::{Error, RangeRequest, Store};

use crate::cluster_proxy::tunnels::require_agent;

pub use follow::follow;

/// Store prefix of the reports: `PREFIX/CLUSTER/SHARD`. No API group begins with a dash, so no object has this prefix.
const PREFIX: &str = "/-flotilla/capacity/";
/// Retries of a write that raced with another one of the same shard.
const WRITES_MAX: usize = 4;

/// The endpoint where agents report the capacity of their members.
pub struct CapacityReports {
    pub clusters: Mirror,
}

#[async_trait]
impl Extension for CapacityReports {
    fn handles(&self, path: &str) -> bool {
        path.starts_with(REPORT_PATH)
    }

    /// Agents have rights to their clusters and none to paths.
    fn judges_callers(&self) -> bool {
        true
    }

    async fn serve(&self, server: &Arc<Server>, request: ExtensionRequest) -> Result<Response<Body>, Status> {
        let ExtensionRequest { incoming, user } = request;
        let cluster = incoming.info.path[REPORT_PATH.len()..].to_owned();
        require_agent(server, &user, &cluster).await?;
        if incoming.method != Method::PUT {
            return Err(Status::new(405, "MethodNotAllowed", "report capacity with PUT"));
        }
        self.require_pull(&cluster)?;
        let body = incoming.body.read().await?;
        let shard = capacity_report::read(&body).map_err(refusal)?;
        let store = &**server.objects.store();
        put(store, &key(&cluster, shard.shard), body).await.map_err(status_of_store)?;
        // The first shard comes last: what is there now is the whole report.
        let held = match shard.shard {
            0 => remove_from(store, &cluster, shard.shards).await.map_err(status_of_store)?,
            _ => shard.shards,
        };
        Ok(respond::value(200, &json!({"shards": held})))
    }
}

impl CapacityReports {
    /// The nodes of push members are watched by the control plane itself.
    fn require_pull(&self, cluster: &str) -> Result<(), Status> {
        let found = self.clusters.get(&ObjectKey::new("", cluster));
        match found.as_deref().map(follow::sync_mode) {
            Some(SyncMode::Pull) => Ok(()),
            Some(_) => Err(Status::new(409, "Conflict", format!("cluster {cluster} is not in sync mode Pull"))),
            None => Err(Status::new(
                409,
                "Conflict",
                format!("there is no {} {cluster} yet", CLUSTERS.gvr().group_resource()),
            )),
        }
    }
}

fn refusal(error: ReportError) -> Status {
    match error {
        ReportError::TooLarge => Status::new(413, "RequestEntityTooLarge", error.to_string()),
        ReportError::Malformed(_) => Status::bad_request(error.to_string()),
    }
}

fn key(cluster: &str, shard: usize) -> String {
    format!("{PREFIX}{cluster}/{shard:03}")
}

/// Reads cluster and shard from a key.
fn parse_key(key: &str) -> Option<(&str, usize)> {
    let (cluster, shard) = key.strip_prefix(PREFIX)?.split_once('/')?;
    Some((cluster, shard.parse().ok()?))
}

/// Writes a shard, whatever was there; one agent per member is active.
async fn put(store: &dyn Store, key: &str, value: Bytes) -> store::Result<()> {
    let mut current = store.get(key).await?.0;
    for _ in 0..WRITES_MAX {
        let written = match &current {
            None => store.create(key, value.clone(), None).await,
            Some(kv) => store.update(key, value.clone(), kv.mod_revision, None).await,
        };
        match written {
            Ok(_) => return Ok(()),
            Err(Error::Exists { .. } | Error::Conflict { .. } | Error::NotFound) => current = store.get(key).await?.0,
            Err(error) => return Err(error),
        }
    }
    Err(Error::Unavailable("another report is being written".into()))
}

/// Removes the shards of a cluster from a number on, and returns how many remain.
async fn remove_from(store: &dyn Store, cluster: &str, first: usize) -> store::Result<usize> {
    let prefix = format!("{PREFIX}{cluster}/");
    let found = store.range(RangeRequest::prefix(&prefix)).await?;
    let mut kept = 0;
    for kv in found.kvs {
        if parse_key(&kv.key).is_some_and(|(_, shard)| shard < first) {
            kept += 1;
        } else {
            match store.delete(&kv.key, Some(kv.mod_revision)).await {
                Ok(_) | Err(Error::NotFound | Error::Conflict { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(kept)
}
