//! The way an agent opens to its member, as both of its ends spell it.

/// Where on the control plane it is opened; the name of the cluster follows.
pub const PATH: &str = "/flotilla/v1alpha1/tunnels/";
/// What the connection becomes.
pub const PROTOCOL: &str = "flotilla-tunnel";
/// Where the agent says the member's API is, as its certificate names it.
pub const SERVER_HEADER: &str = "flotilla-member-server";
