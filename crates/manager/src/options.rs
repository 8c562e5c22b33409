//! InstanceSettings of the manager.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use instances::plane::BackupFormat;

use crate::clusters::ImportPolicy;
use crate::planes::PlaneFlagsParser;

/// Context, cluster and user in the administrator's kubeconfig; it is written to `manager.config`.
const CONTEXT: &str = "manager";

/// InstanceSettings of the manager.
pub struct ManagerOptions {
    /// The API server, its store and its keys.
    pub host: api_host::Options,
    /// Reads the flags of control planes.
    pub plane_flags: PlaneFlagsParser,
    /// Program and first arguments that run `flotilla server`.
    pub server_command: Vec<String>,
    /// Rules for imported control planes and clusters.
    pub clusters: ImportPolicy,
    /// Answer requests of gRPC reflection.
    pub grpc_reflection: bool,
    /// Serve instances also at `NAME.instances.DOMAIN`.
    pub instances_domain: Option<String>,
    /// Reads and writes backups of instances. The command line owns their format.
    pub backups: Option<Arc<dyn BackupFormat>>,
}

impl ManagerOptions {
    pub fn new(data_dir: impl Into<PathBuf>, bind: SocketAddr, plane_flags: PlaneFlagsParser) -> Self {
        Self {
            host: api_host::Options::new(CONTEXT, data_dir, bind),
            plane_flags,
            server_command: Vec::new(),
            clusters: ImportPolicy::default(),
            grpc_reflection: false,
            instances_domain: None,
            backups: None,
        }
    }
}
