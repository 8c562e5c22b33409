//! What runs beside a member that pulls its works: registration, lease, interpretation, and the sync of its one member.

pub mod credentials;
mod lease;
mod plane;
pub mod probe;
pub mod registration;
pub mod renewal;
mod run;
mod tunnel;
mod webhooks;

pub use registration::{Refused, Registration, ReportSecrets};
pub use run::{Parts, Replicas, Settings, run};
