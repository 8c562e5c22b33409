//! The workload controllers: Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs and CronJobs.
//!
//! One folder per controller. Each gathers from mirrors, decides in a pure function, and commits the differences. A
//! controller sees its own writes before the mirror does (`reconcile::mirror`), so nothing is created twice.

mod cluster;
mod conditions;
mod cron_job;
mod daemon_set;
mod deployment;
mod dispatch;
mod events;
mod job;
mod owners;
mod pace;
mod pod_control;
mod pods;
mod ranking;
mod replica_set;
mod revisions;
mod start;
mod stateful_set;
mod templates;
#[cfg(test)]
mod testing;

pub use start::{WorkloadDeps, run};
