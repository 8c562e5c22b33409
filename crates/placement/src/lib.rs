//! Pod placement: node filters and scores, as a pure function that returns its reasons.

mod affinity;
mod amounts;
mod attempt;
mod cluster;
mod labels;
mod outcome;
mod pod;
mod preempt;
mod scores;
mod slab;
mod spread;
mod volumes;

pub use crate::amounts::{Amounts, Requests};
pub use crate::attempt::place;
pub use crate::cluster::{Cluster, NodeInfo};
pub use crate::labels::{Labels, NodeSelector, NodeTerm};
pub use crate::outcome::{PlacementResult, Refusals};
pub use crate::pod::{HostPort, Pod, PodTerm, PodTerms, Spread};
pub use crate::preempt::{Budget, Preemption, Victim, preempt};
pub use crate::volumes::{BoundVolume, UnboundClaim, VolumeNeeds};
