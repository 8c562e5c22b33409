//! Whole-system tests: the real binary, real clients, and a real kube-apiserver to compare with.

pub mod agent;
pub mod etcd;
pub mod eventually;
pub mod fleet;
pub mod flotilla;
#[path = "../../crates/cluster-client/tests/kube/mod.rs"]
pub mod kube_apiserver;
pub mod light_member;
pub mod member;
pub mod netns;
pub mod normalize;
pub mod script;
pub mod testbed;
