//! Runs the interpreter: the current set of rules, the calls of webhooks before a decision, and the time.

pub mod environment;
pub mod shared;
pub mod webhooks;

pub use shared::{CurrentInterpreter, SharedInterpreter};
pub use webhooks::{WebhookCall, WebhookCaller};
