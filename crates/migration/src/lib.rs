//! Moves a control plane from Karmada to Flotilla and back: the objects of one plane become a plan for the other.
//!
//! Plans are pure: which objects are taken over, which are left out and why. Reading a foreign plane and probing its members are
//! thin and apart from them. Nothing here writes to a plane or to a member.

mod definitions;
pub mod export;
pub mod foreign;
pub mod import;
pub mod reach;
pub mod report;
mod rules;
