//! Flags of the audit log.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use api_host::Options;
use apiserver::audit::{Level, Policy, Rotation};
use clap::Args;

const DAY: Duration = Duration::from_secs(24 * 3600);

#[derive(Args)]
pub struct AuditArgs {
    /// Write the audit log to this file: JSON lines of audit.k8s.io/v1 events.
    #[arg(long, alias = "audit-log-path", value_name = "FILE")]
    audit_log: Option<PathBuf>,
    /// Detail recorded of every request: None, Metadata, Request or RequestResponse.
    #[arg(long, default_value = "Metadata", value_name = "LEVEL")]
    audit_level: Level,
    /// Policy (audit.k8s.io/v1) that decides which requests are recorded, those of built-in controllers included;
    /// replaces --audit-level.
    #[arg(long, value_name = "FILE", requires = "audit_log", conflicts_with = "audit_level")]
    audit_policy_file: Option<PathBuf>,
    /// Remove rotated audit logs after this many days; 0 keeps them.
    #[arg(long, default_value_t = 0, value_name = "DAYS", requires = "audit_log")]
    audit_log_maxage: u32,
    /// Number of rotated audit logs to keep; 0 keeps all.
    #[arg(long, default_value_t = 0, value_name = "N", requires = "audit_log")]
    audit_log_maxbackup: usize,
    /// Rotate the audit log at this size, in MiB; 0 never rotates.
    #[arg(long, default_value_t = 0, value_name = "MIB", requires = "audit_log")]
    audit_log_maxsize: u64,
}

impl AuditArgs {
    pub fn apply(self, options: &mut Options) -> anyhow::Result<()> {
        options.audit_policy = match &self.audit_policy_file {
            None => Policy::everything(self.audit_level),
            Some(path) => {
                let named = || format!("--audit-policy-file {}", path.display());
                let text = std::fs::read_to_string(path).with_context(named)?;
                Policy::parse(&text).with_context(named)?
            }
        };
        options.audit_rotation = Rotation {
            size_max_bytes: self.audit_log_maxsize << 20,
            backups_max: self.audit_log_maxbackup,
            age_max: DAY * self.audit_log_maxage,
        };
        options.audit_log = self.audit_log;
        Ok(())
    }
}
