//! Between works and one member: dispatch, reflection, heartbeat and capacity, the same in push and pull.

mod apply;
mod collect;
pub mod connect;
mod dispatch;
pub mod gate;
pub mod interpretation;
mod manifest;
pub mod member;
pub mod push;
mod record;
mod reflect;
mod removal;
mod retain;
pub mod settings;
pub mod single;
mod status;
mod watches;
mod work_status;
mod workers;

pub use collect::CollectSettings;
pub use member::Recorders;
pub use push::PushDeps;
pub use settings::Settings;
pub use single::{MemberDeps, run_member};
pub use status::threshold::Threshold;
pub use status::unschedulable::unschedulable_replicas;
