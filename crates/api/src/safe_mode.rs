//! Safe mode after a restore: paths, reasons and the form of its answers.

use serde::{Deserialize, Serialize};

/// Prefix of every message that reports it to users.
pub const HELD_BACK: &str = "held back by safe mode";
/// Reason of the Dispatching condition of a Work that waits for its end.
pub const REASON: &str = "SafeMode";
/// Reports whether the control plane is in safe mode, and to administrators the changes it holds back.
pub const STATE_PATH: &str = "/flotilla/v1alpha1/safe-mode";
/// Ends safe mode.
pub const CONFIRM_PATH: &str = "/flotilla/v1alpha1/safe-mode/confirm";

/// A change to a member that safe mode did not allow.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Held {
    pub cluster: String,
    /// One of `delete`, `remove from cluster`, `evict`, `change`, `bring back`.
    pub action: String,
    /// Kind, namespace and name, such as `Deployment default/web`.
    pub object: String,
}
