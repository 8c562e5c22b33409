//! Actions of users, and authorization decisions.

/// The action to authorize.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action<'a> {
    Resource(ResourceAction<'a>),
    NonResource { verb: &'a str, path: &'a str },
}

/// An action on a resource; empty strings mean "none": no subresource, all namespaces, no particular name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceAction<'a> {
    pub verb: &'a str,
    pub group: &'a str,
    /// Not used by RBAC: rules do not distinguish versions.
    pub version: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
}

/// An authorization decision, with the binding that allowed the action or the roles that were not found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessDecision {
    pub allowed: bool,
    pub reason: String,
}

impl<'a> From<ResourceAction<'a>> for Action<'a> {
    fn from(action: ResourceAction<'a>) -> Self {
        Action::Resource(action)
    }
}

impl<'a> Action<'a> {
    /// The namespace whose role bindings apply in addition to the cluster-wide ones; empty for none.
    pub fn namespace(&self) -> &'a str {
        match self {
            Action::Resource(action) => action.namespace,
            Action::NonResource { .. } => "",
        }
    }
}

impl AccessDecision {
    pub fn allow(reason: impl Into<String>) -> Self {
        Self { allowed: true, reason: reason.into() }
    }

    pub fn deny(reason: impl Into<String>) -> Self {
        Self { allowed: false, reason: reason.into() }
    }
}
