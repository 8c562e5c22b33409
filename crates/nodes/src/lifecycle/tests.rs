//! Pods through time: each case is a pod, its rules, and what its status says at some moments.
