//! The gRPC protocol of karmada-scheduler-estimator: a client for the scheduler, and the same service for the schedulers of
//! others.

mod calculate;
pub mod client;
mod convert;
mod messages;
pub mod server;

/// The service as gRPC names it.
const SERVICE: &str = "/github.com.karmada_io.karmada.pkg.estimator.service.Estimator/";
const MAX_AVAILABLE_REPLICAS: &str = "MaxAvailableReplicas";
const MAX_AVAILABLE_COMPONENT_SETS: &str = "MaxAvailableComponentSets";
const GET_UNSCHEDULABLE_REPLICAS: &str = "GetUnschedulableReplicas";
