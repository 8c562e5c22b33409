//! Karmada's side of the API server: its admission rules, the proxy and tunnels to members, and the endpoints for search,
//! metrics, explanations, timelines, capacity reports and safe mode.

pub mod admission;
pub mod bootstrap;
pub mod cluster_proxy;
pub mod explaining;
pub mod member_capacity;
pub mod member_metrics;
pub mod pod_commands;
pub mod restored;
pub mod safe_mode;
pub mod searching;
pub mod timeline;
