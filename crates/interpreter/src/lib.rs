//! Interprets kinds: native rules, Lua customizations, webhooks and bundled third-party rules, in a fixed order of
//! precedence. Synchronous and pure: time, webhook answers and the environment of scripts are arguments.

pub mod check;
mod customization;
mod dependency;
mod environment;
mod lua;
mod native;
pub mod operation;
pub mod pod;
pub mod question;
mod thirdparty;
pub mod tiers;
pub mod webhook;

pub use environment::ScriptEnvironment;
pub use operation::{InterpretError, InterpretResult, Operation};
pub use question::Question;
pub use tiers::{Interpreter, Tier};
pub use webhook::{WebhookAnswer, WebhookRequest};
