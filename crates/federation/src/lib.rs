//! The walk of a workload on the control plane: template to binding, binding to works, works back to the template.

mod binding;
mod bindings;
#[cfg(test)]
mod confused_deputy;
mod dependencies;
mod eviction;
mod plane;
mod rollup;
mod settings;
mod start;
mod templates;
#[cfg(test)]
mod testing;
mod timeline;
mod work;

pub use crate::plane::Plane;
pub use crate::settings::{EnabledControllers, Settings};
pub use crate::start::{FederationDeps, run};
pub use crate::templates::{Template, Templates};
pub use crate::timeline::Timeline;
