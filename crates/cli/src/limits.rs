//! Flags that limit the load clients put on the API server.

use apiserver::limits::LimitsConfig;
use clap::Args;

#[derive(Args)]
pub struct LimitsArgs {
    /// Maximum number of reads in progress; more are refused with 429.
    #[arg(long, default_value_t = 400, value_name = "N")]
    max_requests_inflight: usize,
    /// Maximum number of writes in progress; more are refused with 429.
    #[arg(long, default_value_t = 200, value_name = "N")]
    max_mutating_requests_inflight: usize,
    /// Maximum number of watches and other long-running requests of one user.
    #[arg(long, default_value_t = LimitsConfig::default().long_running_per_user_max, value_name = "N")]
    max_long_running_requests_per_user: usize,
    /// Memory for request bodies and unread responses of all users, in MiB. One user gets an eighth of it.
    #[arg(long, default_value_t = LimitsConfig::default().memory_max >> 20, value_name = "MIB")]
    max_inflight_memory: usize,
    /// Maximum number of open connections.
    #[arg(long, default_value_t = LimitsConfig::default().connections.connections_max, value_name = "N")]
    max_connections: usize,
    /// Maximum number of open connections from one address; 0 for half of --max-connections.
    #[arg(long, default_value_t = 0, value_name = "N")]
    max_connections_per_address: usize,
}

impl LimitsArgs {
    pub fn apply(&self, limits: &mut LimitsConfig) {
        limits.reads_max = self.max_requests_inflight;
        limits.writes_max = self.max_mutating_requests_inflight;
        limits.long_running_per_user_max = self.max_long_running_requests_per_user;
        limits.memory_max = self.max_inflight_memory << 20;
        limits.memory_per_user_max = limits.memory_max / 8;
        limits.connections.connections_max = self.max_connections;
        limits.connections.per_address_max = self.max_connections_per_address;
    }
}
