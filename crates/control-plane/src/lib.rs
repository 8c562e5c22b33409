//! Wiring of a whole control plane from a data directory. One process can run several.

mod components;
mod estimation;
mod interpretation;
mod joining;
mod options;
mod start;

pub use api_host::Storage;
pub use options::{Options, Propagation};
pub use start::ControlPlane;

/// Setting types that are parsed from text.
pub mod settings {
    pub use autoscaling::AutoscalingSettings;
    pub use binding_scheduling::Descheduling;
    pub use core_controllers::AgentApproval;
    pub use estimator::client::EstimatorSettings;
    pub use estimator::server::ServerSettings as EstimatorServerSettings;
    pub use federation::EnabledControllers as FederationControllers;
    pub use fleet::settings::{Controllers, PurgeMode, Settings as FleetSettings};
    pub use member_sync::CollectSettings;
    pub use member_sync::settings::EnabledSyncs;
    pub use plane_api::searching::SearchAccess;
    pub use propagation::skipped_apis::SkippedApis;
    pub use propagation::skipped_namespaces::SkippedNamespaces;
    pub use services::CONTROLLERS as SERVICE_CONTROLLERS;

    /// Returns the names `--controllers` accepts.
    pub fn controller_names() -> Vec<&'static str> {
        let mut names = fleet::controller_names();
        names.push(autoscaling::FEDERATED_HPA_CONTROLLER);
        names
    }
}
