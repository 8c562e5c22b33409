//! Users of requests: their names and groups, and those of service accounts.

use std::collections::BTreeMap;

use crate::names;

/// Its members may do anything, regardless of the rules.
pub const MASTERS_GROUP: &str = "system:masters";
pub const AUTHENTICATED_GROUP: &str = "system:authenticated";
pub const UNAUTHENTICATED_GROUP: &str = "system:unauthenticated";
pub const ANONYMOUS_USER: &str = "system:anonymous";

const SERVICE_ACCOUNTS_GROUP: &str = "system:serviceaccounts";
const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// A user as authenticated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    pub fn new(name: &str, groups: &[&str]) -> Self {
        let groups = groups.iter().map(|g| (*g).to_owned()).collect();
        Self { name: name.to_owned(), groups, ..Self::default() }
    }

    /// The user of requests without credentials.
    pub fn anonymous() -> Self {
        Self::new(ANONYMOUS_USER, &[UNAUTHENTICATED_GROUP])
    }

    /// The user that a service account's token authenticates as.
    pub fn service_account(namespace: &str, name: &str) -> Self {
        let mut groups = service_account_groups(namespace);
        groups.push(AUTHENTICATED_GROUP.to_owned());
        Self { name: service_account_user(namespace, name), groups, ..Self::default() }
    }

    pub fn in_group(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }

    pub fn is_master(&self) -> bool {
        self.in_group(MASTERS_GROUP)
    }
}

/// `system:serviceaccount:NAMESPACE:NAME`.
pub fn service_account_user(namespace: &str, name: &str) -> String {
    format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}")
}

/// The groups of every service account of the namespace, without `system:authenticated`.
pub fn service_account_groups(namespace: &str) -> Vec<String> {
    vec![SERVICE_ACCOUNTS_GROUP.to_owned(), format!("{SERVICE_ACCOUNTS_GROUP}:{namespace}")]
}

/// Namespace and name of the service account a user name refers to.
pub fn split_service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(SERVICE_ACCOUNT_PREFIX)?.split_once(':')?;
    let valid = names::dns1123_label(namespace).is_empty() && names::dns1123_subdomain(name).is_empty();
    valid.then_some((namespace, name))
}
