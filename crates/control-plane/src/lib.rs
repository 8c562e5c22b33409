//! Wiring of a whole control plane from a data directory. One process can run several.

mod components;
mod interpretation;
mod options;
mod start;

pub use api_host::Storage;
pub use options::{Options, Propagation};
pub use start::ControlPlane;

/// Setting types that are parsed from text.
pub mod settings {
    pub use binding_scheduling::Descheduling;
    pub use core_controllers::AgentApproval;
    pub use fleet::controller_names;
    pub use fleet::settings::{Controllers, PurgeMode, Settings as FleetSettings};
    pub use propagation::skipped_apis::SkippedApis;
    pub use propagation::skipped_namespaces::SkippedNamespaces;
}
