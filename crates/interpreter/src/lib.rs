//! What a kind means: native rules, Lua customizations, webhooks and bundled third-party rules, asked in one order.

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
