//! The walk of a workload on the control plane: template to binding, binding to works, works back to the template.

mod binding;
mod dependencies;
mod plane;
mod settings;
mod start;
mod templates;

pub use crate::plane::Plane;
pub use crate::settings::{Settings, SkippedApis, SkippedNamespaces};
pub use crate::start::{Parts, run};
pub use crate::templates::{Template, Templates};
