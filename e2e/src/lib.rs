//! Whole-system tests: the real binary, real clients, and a real kube-apiserver to compare with.

pub mod flotilla;
pub mod normalize;
pub mod script;
