//! Whole-system tests: the real binary, real clients, and a real kube-apiserver to compare with.

pub mod agent;
pub mod balancer;
pub mod etcd;
pub mod eventually;
pub mod failover_scenarios;
pub mod faults;
pub mod fleet;
pub mod flotilla;
pub mod history;
pub mod karmada_plane;
#[path = "../../crates/cluster-client/tests/kube/mod.rs"]
pub mod kube_apiserver;
pub mod light_fleet;
pub mod light_member;
pub mod manager;
pub mod member;
pub mod netns;
pub mod normalize;
pub mod permissions;
pub mod raw_client;
pub mod ready;
pub mod replicas;
pub mod script;
pub mod soak;
pub mod testbed;
