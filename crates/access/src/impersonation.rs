//! Impersonation: the permissions it requires, and the resulting user.
//!
//! The wanted user comes from the `Impersonate-*` headers; keys of its `extra` are lower-case and unescaped.

use object::request::User;
use object::request::user::{
    ANONYMOUS_USER, AUTHENTICATED_GROUP, UNAUTHENTICATED_GROUP, service_account_groups, split_service_account,
};

use crate::{Action, ResourceAction};

const AUTHENTICATION_GROUP: &str = "authentication.k8s.io";

/// Groups, uid and extra are only valid together with a user.
pub fn check(wanted: &User) -> Result<(), String> {
    if wanted.name.is_empty() && *wanted != User::default() {
        let parts =
            [("Group", wanted.groups.clone()), ("UserExtra", wanted.extra.values().flatten().cloned().collect())];
        let parts = parts.into_iter().flat_map(|(kind, names)| names.into_iter().map(move |n| format!("{kind} {n}")));
        let uid = (!wanted.uid.is_empty()).then(|| format!("UID {}", wanted.uid));
        let parts: Vec<String> = parts.chain(uid).collect();
        return Err(format!("requested [{}] without impersonating a user", parts.join(" ")));
    }
    Ok(())
}

/// The actions the real caller must be allowed, in order; the first denied one fails the request.
pub fn actions(wanted: &User) -> Vec<Action<'_>> {
    let base = ResourceAction { verb: "impersonate", version: "v1", ..ResourceAction::default() };
    let mut actions = Vec::new();
    if !wanted.name.is_empty() {
        actions.push(match split_service_account(&wanted.name) {
            Some((namespace, name)) => ResourceAction { resource: "serviceaccounts", namespace, name, ..base },
            None => ResourceAction { resource: "users", name: &wanted.name, ..base },
        });
    }
    actions.extend(wanted.groups.iter().map(|name| ResourceAction { resource: "groups", name, ..base }));
    for (key, values) in &wanted.extra {
        actions.extend(values.iter().map(|name| ResourceAction {
            group: AUTHENTICATION_GROUP,
            resource: "userextras",
            subresource: key,
            name,
            ..base
        }));
    }
    if !wanted.uid.is_empty() {
        actions.push(ResourceAction { group: AUTHENTICATION_GROUP, resource: "uids", name: &wanted.uid, ..base });
    }
    actions.into_iter().map(Action::Resource).collect()
}

/// The user that the request continues as, with the groups that every such user has.
pub fn into_user(mut wanted: User) -> User {
    let mut groups = std::mem::take(&mut wanted.groups);
    if groups.is_empty()
        && let Some((namespace, _)) = split_service_account(&wanted.name)
    {
        groups = service_account_groups(namespace);
    }
    let has = |groups: &[String], group: &str| groups.iter().any(|g| g == group);
    if wanted.name == ANONYMOUS_USER {
        if !has(&groups, UNAUTHENTICATED_GROUP) {
            groups.push(UNAUTHENTICATED_GROUP.to_owned());
        }
    } else if !has(&groups, AUTHENTICATED_GROUP) && !has(&groups, UNAUTHENTICATED_GROUP) {
        groups.push(AUTHENTICATED_GROUP.to_owned());
    }
    User { groups, ..wanted }
}
