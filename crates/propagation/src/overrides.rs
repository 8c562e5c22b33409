//! How a template differs from member to member: which override policies apply, in which order, and what they change.

/// What was applied, as it is noted on the Work: JSON lists of policy names and their overriders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    pub cluster: Option<String>,
    pub namespaced: Option<String>,
}
