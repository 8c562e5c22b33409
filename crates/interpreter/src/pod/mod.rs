//! Requirements and dependencies of a pod.

mod dependencies;
mod requirements;

pub use dependencies::{dependencies, reference};
pub use requirements::{PodOptions, requirements};
