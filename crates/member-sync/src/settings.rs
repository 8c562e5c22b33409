//! The figures a member is kept in sync by, with Karmada's defaults where Karmada has them.

use std::time::Duration;

use cluster_client::remote::limit::RateLimit;
use reconcile::backoff::Backoff;

use crate::gate::Gate;

/// One set for all members of a control plane.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Works of one member that are handled at the same time.
    pub workers: usize,
    /// How often a member is asked whether it is well and what it can take.
    pub heartbeat: Duration,
    /// How long a member must answer before it counts as ready again.
    pub success_threshold: Duration,
    /// How long a member must fail before it counts as not ready.
    pub failure_threshold: Duration,
    /// Whether nodes and pods of members are watched to know what they can take.
    pub resource_modeling: bool,
    /// A member's own flow control is what bounds us; this only stops a runaway.
    pub rate_limit: Option<RateLimit>,
    pub request_timeout: Duration,
    /// How long the first look at a member waits for the copies of its objects.
    pub sync_wait: Duration,
    /// How long a change of status in a member waits for the next before it is told.
    pub reflect_wait: Duration,
    /// Between tries of a work that failed.
    pub backoff: Backoff,
    /// Shut while what is in members must stay as it is.
    pub gate: Gate,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            workers: 16,
            heartbeat: Duration::from_secs(10),
            success_threshold: Duration::from_secs(30),
            failure_threshold: Duration::from_secs(30),
            resource_modeling: true,
            rate_limit: Some(RateLimit { per_second: 2000.0, burst: 4000 }),
            request_timeout: Duration::from_secs(32),
            sync_wait: Duration::from_secs(10),
            reflect_wait: Duration::from_millis(100),
            // Karmada goes up to 1000 s; whoever mends an admission policy should not wait a quarter of an hour.
            backoff: Backoff { base: Duration::from_millis(5), max: Duration::from_secs(300) },
            gate: Gate::default(),
        }
    }
}
