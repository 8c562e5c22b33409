//! The services of the manager's API. Every call is checked against the permission of its RPC; objects of instances are read
//! and written with the caller's own rights there.

mod access;
mod audit;
mod backups;
mod clusters;
mod convert;
mod diagnosis;
mod events;
mod explain;
mod gate;
mod gateway;
mod instance_patch;
mod instances;
mod integration;
mod inventory;
mod lists;
mod metrics;
mod policies;
mod prometheus;
mod promotion;
mod query;
mod registration;
mod resources;
mod search;
mod sessions;
mod settings;
mod workloads;

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use ::instances::data_dir::InstanceDirs;
use ::instances::plane::BackupFormat;
use cluster_client::ClusterClient;
use object::request::User;
use reconcile::Mirror;

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
    /// Signs page tokens.
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
    pub intake: BindingIntake,
}

/// The author of a call.
pub struct ApiCaller {
    pub user: Arc<User>,
    pub address: IpAddr,
    /// The instance of the call, as soon as it is known.
    pub instance: OnceLock<String>,
}

impl ApiCaller {
    fn new(user: Arc<User>, address: IpAddr) -> Self {
        Self { user, address, instance: OnceLock::new() }
    }
}
