//! Interprets kinds: native rules, Lua customizations, webhooks and bundled third-party rules, in a fixed order of
//! precedence.

pub mod check;
mod customization;
mod dependency;
mod lua;
mod native;
pub mod operation;
pub mod pod;
pub mod shared;
mod thirdparty;
pub mod tiers;
pub mod webhook;

pub use operation::{InterpretError, Operation};
pub use shared::Shared;
pub use tiers::Interpreter;
pub use webhook::{NoWebhooks, WebhookCall, WebhookCaller};
