//! The services of the manager's API. Every call is checked against the permission of its RPC; objects of instances are read
//! and written with the caller's own rights there.

mod access;
mod audit;
mod backups;
mod clusters;
mod collections;
mod convert;
mod diagnosis;
mod events;
mod explain;
mod gate;
mod gateway;
mod graph;
mod history;
mod instance_patch;
mod instance_view;
mod instances;
mod integration;
mod inventory;
pub mod lists;
mod metrics;
mod policies;
mod policy_preview;
mod prometheus;
mod promotion;
pub mod query;
mod registration;
mod resources;
mod search;
mod sessions;
mod settings;
mod sign_in;
mod timeline;
mod versions;
mod workloads;

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use ::instances::data_dir::InstanceDirs;
use ::instances::plane::BackupFormat;
use cluster_client::ClusterClient;
use object::request::User;
use reconcile::Mirror;
use web_console::WebConsole;

use crate::accounts::Accounts;
use crate::audit_trail::AuditTrail;
use crate::binding_intake::BindingIntake;
use crate::operations::Operations;
use crate::webhooks::Webhooks;

pub use gateway::ApiGateway;

/// Implements all services.
pub struct ManagerApi {
    pub operations: Arc<Operations>,
    pub accounts: Arc<Accounts>,
    /// A client with all rights in the manager's own API; used after a permission was checked.
    pub system: ClusterClient,
    /// Results of earlier creates with a request id.
    pub repeated: gate::RepeatedCalls,
    /// Seals page tokens. All managers on the same storage have it.
    pub page_key: String,
    /// The issuer of OIDC tokens that are accepted.
    pub oidc_issuer: Option<String>,
    pub audit: Arc<AuditTrail>,
    pub dirs: InstanceDirs,
    pub backups: Option<Arc<dyn BackupFormat>>,
    /// Held while a backup is taken.
    pub backup_turn: tokio::sync::Mutex<()>,
    pub registrations: Mirror,
    pub webhooks: Webhooks,
    /// The sessions of browsers.
    pub console: Arc<WebConsole>,
    pub intake: BindingIntake,
}

/// The author of a call.
pub struct ApiCaller {
    pub user: Arc<User>,
    pub address: IpAddr,
    /// The instance of the call, as soon as it is known.
    pub instance: OnceLock<String>,
    pub credential: CallCredential,
}

/// The credential of a call, as far as its owner can revoke it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallCredential {
    /// The id of an access token.
    pub token: Option<String>,
    /// The id of a session of a browser.
    pub session: Option<String>,
}

impl ApiCaller {
    fn new(user: Arc<User>, address: IpAddr, credential: CallCredential) -> Self {
        Self { user, address, instance: OnceLock::new(), credential }
    }
}
