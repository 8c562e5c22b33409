//! The figures a member is kept in sync by, with Karmada's defaults where Karmada has them.

use std::time::Duration;

use cluster_client::remote::addresses::AddressPolicy;
use cluster_client::remote::limit::RateLimit;
use reconcile::backoff::Backoff;

use crate::collect::CollectSettings;
use crate::gate::Gate;

/// One set for all members of a control plane.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Works of one member that are handled at the same time.
    pub workers: usize,
    /// Interval for collecting the status of a member.
    pub heartbeat: Duration,
    /// Time a member must be healthy before it is ready again.
    pub success_threshold: Duration,
    /// Time a member must fail before it is not ready.
    pub failure_threshold: Duration,
    /// The controllers that run, by `--controllers`.
    pub runs: EnabledSyncs,
    /// Watch the nodes and pods of members to estimate their capacity.
    pub resource_modeling: bool,
    /// Watch ResourceQuotas where the gate ResourceQuotaEstimate is off too: an agent does not know the gates of its control
    /// plane. A member that does not answer for them has none then.
    pub watch_quotas: bool,
    /// A member's own flow control is what bounds us; this only stops a runaway.
    pub rate_limit: Option<RateLimit>,
    pub request_timeout: Duration,
    /// Time the first status collection waits for the mirrors of a member.
    pub sync_wait: Duration,
    /// Delay that groups status changes of a member into one write.
    pub reflect_wait: Duration,
    /// Between tries of a work that failed.
    pub backoff: Backoff,
    /// Which slices of members are reported.
    pub collect: CollectSettings,
    /// Shut while what is in members must stay as it is.
    pub gate: Gate,
    /// Addresses of members that are not connected to.
    pub addresses: AddressPolicy,
}

/// The parts of the sync that run, by the names of Karmada's controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnabledSyncs {
    /// `clusterStatus`: the heartbeat, which also collects the capacity.
    pub cluster_status: bool,
    /// `execution`: works are applied. Without it their status is not collected either.
    pub execution: bool,
    /// `workStatus`: the status of applied objects is collected.
    pub work_status: bool,
}

impl Default for EnabledSyncs {
    fn default() -> Self {
        Self { cluster_status: true, execution: true, work_status: true }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            workers: 16,
            heartbeat: Duration::from_secs(10),
            success_threshold: Duration::from_secs(30),
            failure_threshold: Duration::from_secs(30),
            runs: EnabledSyncs::default(),
            resource_modeling: true,
            watch_quotas: false,
            rate_limit: Some(RateLimit { per_second: 2000.0, burst: 4000 }),
            request_timeout: Duration::from_secs(32),
            sync_wait: Duration::from_secs(10),
            reflect_wait: Duration::from_millis(100),
            // Karmada goes up to 1000 s; after an admission policy is fixed, nothing should wait a quarter of an hour.
            backoff: Backoff { base: Duration::from_millis(5), max: Duration::from_secs(300) },
            collect: CollectSettings::default(),
            gate: Gate::default(),
            addresses: AddressPolicy::default(),
        }
    }
}
