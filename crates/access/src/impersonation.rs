//! Impersonation: the permissions it requires, and the resulting user.

use std::collections::BTreeMap;

use crate::user::{
    ANONYMOUS_USER, AUTHENTICATED_GROUP, Action, ResourceAction, UNAUTHENTICATED_GROUP, User, service_account_groups,
    split_service_account,
};

const AUTHENTICATION_GROUP: &str = "authentication.k8s.io";

/// The request in the `Impersonate-*` headers; keys of `extra` are lower-case and unescaped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Impersonation {
    pub user: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

impl Impersonation {
    /// Reports whether no impersonation is requested.
    pub fn is_empty(&self) -> bool {
        self.user.is_empty() && self.uid.is_empty() && self.groups.is_empty() && self.extra.is_empty()
    }

    /// Groups, uid and extra are only valid together with a user.
    pub fn check(&self) -> Result<(), String> {
        if self.user.is_empty() && !self.is_empty() {
            let parts =
                [("Group", self.groups.clone()), ("UserExtra", self.extra.values().flatten().cloned().collect())];
            let parts =
                parts.into_iter().flat_map(|(kind, names)| names.into_iter().map(move |n| format!("{kind} {n}")));
            let uid = (!self.uid.is_empty()).then(|| format!("UID {}", self.uid));
            let parts: Vec<String> = parts.chain(uid).collect();
            return Err(format!("requested [{}] without impersonating a user", parts.join(" ")));
        }
        Ok(())
    }

    /// The actions the real caller must be allowed, in order; the first denied one fails the request.
    pub fn actions(&self) -> Vec<Action<'_>> {
        let base = ResourceAction { verb: "impersonate", version: "v1", ..ResourceAction::default() };
        let mut actions = Vec::new();
        if !self.user.is_empty() {
            actions.push(match split_service_account(&self.user) {
                Some((namespace, name)) => ResourceAction { resource: "serviceaccounts", namespace, name, ..base },
                None => ResourceAction { resource: "users", name: &self.user, ..base },
            });
        }
        actions.extend(self.groups.iter().map(|name| ResourceAction { resource: "groups", name, ..base }));
        for (key, values) in &self.extra {
            actions.extend(values.iter().map(|name| ResourceAction {
                group: AUTHENTICATION_GROUP,
                resource: "userextras",
                subresource: key,
                name,
                ..base
            }));
        }
        if !self.uid.is_empty() {
            actions.push(ResourceAction { group: AUTHENTICATION_GROUP, resource: "uids", name: &self.uid, ..base });
        }
        actions.into_iter().map(Action::Resource).collect()
    }

    /// The user the request continues as.
    pub fn into_user(self) -> User {
        let mut groups = self.groups;
        if groups.is_empty()
            && let Some((namespace, _)) = split_service_account(&self.user)
        {
            groups = service_account_groups(namespace);
        }
        let has = |groups: &[String], group: &str| groups.iter().any(|g| g == group);
        if self.user == ANONYMOUS_USER {
            if !has(&groups, UNAUTHENTICATED_GROUP) {
                groups.push(UNAUTHENTICATED_GROUP.to_owned());
            }
        } else if !has(&groups, AUTHENTICATED_GROUP) && !has(&groups, UNAUTHENTICATED_GROUP) {
            groups.push(AUTHENTICATED_GROUP.to_owned());
        }
        User { name: self.user, uid: self.uid, groups, extra: self.extra }
    }
}
