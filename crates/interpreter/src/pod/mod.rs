//! What a pod asks of the cluster it runs in.

mod dependencies;
mod requirements;

pub use dependencies::{dependencies, reference};
pub use requirements::{Options, requirements};
