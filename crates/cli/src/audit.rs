//! Flags of the audit log.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use api_host::Options;
use apiserver::audit::{BatchSettings, Level, Policy, Rotation};
use clap::Args;

use crate::webhook_flags::{endpoint, read_duration};

const DAY: Duration = Duration::from_secs(24 * 3600);

#[derive(Args)]
#[command(group = clap::ArgGroup::new("audit_target").multiple(true))]
pub struct AuditArgs {
    /// Write the audit log to this file: JSON lines of audit.k8s.io/v1 events.
    #[arg(long, alias = "audit-log-path", value_name = "FILE", group = "audit_target")]
    audit_log: Option<PathBuf>,
    /// Detail recorded of every request, built-in controllers included: None, Metadata, Request or RequestResponse.
    #[arg(long, default_value = "Metadata", value_name = "LEVEL")]
    audit_level: Level,
    /// Policy (audit.k8s.io/v1) that decides which requests are recorded; replaces --audit-level.
    #[arg(long, value_name = "FILE", requires = "audit_target", conflicts_with = "audit_level")]
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
    /// Kubeconfig of a webhook that gets the recorded requests (audit.k8s.io/v1 EventList) in batches.
    #[arg(long, value_name = "FILE", group = "audit_target")]
    audit_webhook_config_file: Option<PathBuf>,
    /// Pause before a batch is sent again; it grows by half each time, and the fifth failure drops the batch.
    #[arg(long, default_value = "10s", value_parser = read_duration, value_name = "DURATION", requires = "audit_webhook_config_file")]
    audit_webhook_initial_backoff: Duration,
    /// Events that wait to be sent to the webhook; more are dropped.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000), value_name = "N", requires = "audit_webhook_config_file")]
    audit_webhook_batch_buffer_size: u32,
    /// Largest number of events in one request to the webhook.
    #[arg(long, default_value_t = 400, value_parser = clap::value_parser!(u32).range(1..=10_000), value_name = "N", requires = "audit_webhook_config_file")]
    audit_webhook_batch_max_size: u32,
    /// Time after which a batch is sent that is not full.
    #[arg(long, default_value = "30s", value_parser = read_duration, value_name = "DURATION", requires = "audit_webhook_config_file")]
    audit_webhook_batch_max_wait: Duration,
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
        options.audit_webhook = match &self.audit_webhook_config_file {
            None => None,
            Some(path) => Some((endpoint(path, "--audit-webhook-config-file")?, self.batches())),
        };
        options.audit_log = self.audit_log;
        Ok(())
    }

    fn batches(&self) -> BatchSettings {
        BatchSettings {
            buffer_max: self.audit_webhook_batch_buffer_size as usize,
            batch_max: self.audit_webhook_batch_max_size as usize,
            wait_max: self.audit_webhook_batch_max_wait,
            retry_after: self.audit_webhook_initial_backoff,
        }
    }
}
