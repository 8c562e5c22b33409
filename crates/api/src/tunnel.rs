//! Protocol constants of the tunnel an agent opens for its member.

/// Path on the control plane; followed by the name of the cluster.
pub const PATH: &str = "/flotilla/v1alpha1/tunnels/";
/// Protocol of the upgraded connection.
pub const PROTOCOL: &str = "flotilla-tunnel";
/// Header with the address of the member's API server, as in its certificate.
pub const SERVER_HEADER: &str = "flotilla-member-server";
