//! The controllers that make pods: Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, CronJob.
