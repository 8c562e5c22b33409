//! State that the components of one control plane share: member capacity, scheduling decisions, steps of propagations and
//! safe mode.

pub mod capacity_report;
pub mod decisions;
mod member_capacity;
pub mod propagations;
mod safe_mode;

pub use decisions::{Decisions, RecordedDecision};
pub use member_capacity::MemberCapacity;
pub use propagations::Propagations;
pub use safe_mode::SafeMode;
