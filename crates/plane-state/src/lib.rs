//! State that the components of one control plane share: member capacity, scheduling decisions and safe mode.

pub mod decisions;
mod member_capacity;
mod safe_mode;

pub use decisions::{Decisions, RecordedDecision};
pub use member_capacity::MemberCapacity;
pub use safe_mode::SafeMode;
