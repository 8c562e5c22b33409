//! Impersonation: reads the `Impersonate-*` headers and finds a right by which the caller may use them.
//!
//! Kubernetes 1.36 has constrained modes in addition to the classic one (KEP 5284): the caller must hold
//! `impersonate:MODE` on
//! the user and `impersonate-on:MODE:VERB` on what the request does. They are tried first; the classic `impersonate` last.

use access::{Action, ResourceAction, impersonation};
use http::{HeaderMap, HeaderValue};
use object::field::go_quote;
use object::request::User;
use object::request::user::{AUTHENTICATED_GROUP, MASTERS_GROUP, service_account_groups, split_service_account};
use object::{Status, names};

use super::{Auth, refusal};
use crate::request::RequestInfo;
use crate::resources::Resources;

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA_PREFIX: &str = "impersonate-extra-";
const AUTHENTICATION_GROUP: &str = "authentication.k8s.io";
const NODE_NAME_EXTRA: &str = "authentication.kubernetes.io/node-name";

/// Reads the user that the headers name; `None` without such headers.
pub fn read(headers: &HeaderMap) -> Result<Option<User>, Status> {
    let mut wanted = User::default();
    for (header, value) in headers {
        match header.as_str() {
            USER if wanted.name.is_empty() => wanted.name = text(value)?,
            UID if wanted.uid.is_empty() => wanted.uid = text(value)?,
            GROUP => wanted.groups.push(text(value)?),
            other => {
                if let Some(key) = other.strip_prefix(EXTRA_PREFIX) {
                    wanted.extra.entry(unescape_key(key)).or_default().push(text(value)?);
                }
            }
        }
    }
    if wanted == User::default() {
        return Ok(None);
    }
    if wanted.name.is_empty() {
        let text = format!("requested {} without impersonating a user name", describe(&wanted));
        return Err(Status::bad_request(text));
    }
    Ok(Some(wanted))
}

/// A header that cannot be read is refused; without it the request would act as another user.
fn text(value: &HeaderValue) -> Result<String, Status> {
    let text = std::str::from_utf8(value.as_bytes());
    text.map(str::to_owned).map_err(|_| Status::bad_request("an impersonation header is not valid UTF-8"))
}

/// Header names hold few characters, so others in a key come percent-encoded; a bad encoding is kept as it is.
pub fn unescape_key(key: &str) -> String {
    let decoded = object::percent::decode(key).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    decoded.unwrap_or_else(|| key.to_owned())
}

/// The user as kube-apiserver's message prints it.
fn describe(wanted: &User) -> String {
    let list = |items: &[String]| {
        let items: Vec<String> = items.iter().map(|item| go_quote(item)).collect();
        if items.is_empty() { "[]string(nil)".to_owned() } else { format!("[]string{{{}}}", items.join(", ")) }
    };
    let extra: Vec<String> = wanted.extra.iter().map(|(k, v)| format!("{}:{}", go_quote(k), list(v))).collect();
    let extra = if extra.is_empty() { "(nil)".to_owned() } else { format!("{{{}}}", extra.join(", ")) };
    let (uid, groups) = (go_quote(&wanted.uid), list(&wanted.groups));
    format!("&user.DefaultInfo{{Name:\"\", UID:{uid}, Groups:{groups}, Extra:map[string][]string{extra}}}")
}

/// The user the request goes on as, when one of the ways is open to the caller; else the refusal of the first that applies.
pub async fn assume(
    auth: &Auth,
    resources: Resources<'_>,
    caller: &User,
    wanted: User,
    info: &RequestInfo,
) -> Result<User, Status> {
    let mut refused: Option<Status> = None;
    for mode in Mode::ALL.into_iter().filter(|mode| mode.applies(caller, &wanted)) {
        match mode.check(auth, resources, caller, &wanted, info).await {
            Ok(()) => return Ok(mode.user(wanted)),
            Err(status) if status.code == 403 => {
                refused.get_or_insert(status);
            }
            Err(status) => return Err(status),
        }
    }
    for action in impersonation::actions(&wanted) {
        if let Err(status) = auth.require(resources, caller, &action).await {
            return Err(refused.unwrap_or(status));
        }
    }
    Ok(impersonation::into_user(wanted))
}

/// A constrained way of impersonating.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    /// A ServiceAccount of a pod acts as the node the pod runs on.
    AssociatedNode,
    ArbitraryNode,
    ServiceAccount,
    UserInfo,
}

impl Mode {
    const ALL: [Self; 4] = [Self::AssociatedNode, Self::ArbitraryNode, Self::ServiceAccount, Self::UserInfo];

    fn name(self) -> &'static str {
        match self {
            Self::AssociatedNode => "associated-node",
            Self::ArbitraryNode => "arbitrary-node",
            Self::ServiceAccount => "serviceaccount",
            Self::UserInfo => "user-info",
        }
    }

    fn applies(self, caller: &User, wanted: &User) -> bool {
        let only_name = wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let (node, account) = (node_name(&wanted.name), split_service_account(&wanted.name));
        match self {
            Self::AssociatedNode => {
                let own_node = caller.extra.get(NODE_NAME_EXTRA).map(Vec::as_slice);
                let is_own = matches!(own_node, Some([name]) if Some(name.as_str()) == node);
                only_name && is_own && split_service_account(&caller.name).is_some()
            }
            Self::ArbitraryNode => only_name && node.is_some(),
            Self::ServiceAccount => only_name && account.is_some(),
            Self::UserInfo => node.is_none() && account.is_none(),
        }
    }

    async fn check(
        self,
        auth: &Auth,
        resources: Resources<'_>,
        caller: &User,
        wanted: &User,
        info: &RequestInfo,
    ) -> Result<(), Status> {
        let on_verb = format!("impersonate-on:{}:{}", self.name(), info.verb);
        let on = match refusal::action_of(info) {
            Action::Resource(action) => Action::Resource(ResourceAction { verb: &on_verb, ..action }),
            Action::NonResource { path, .. } => Action::NonResource { verb: &on_verb, path },
        };
        auth.require(resources, caller, &on).await?;
        let verb = format!("impersonate:{}", self.name());
        let actions = self.actions(&verb, wanted);
        refuse_sensitive(caller, &verb, wanted)?;
        for action in &actions {
            auth.require(resources, caller, &Action::Resource(*action)).await?;
        }
        Ok(())
    }

    fn actions<'a>(self, verb: &'a str, wanted: &'a User) -> Vec<ResourceAction<'a>> {
        let base = ResourceAction { verb, group: AUTHENTICATION_GROUP, version: "v1", ..ResourceAction::default() };
        let user = match (node_name(&wanted.name), split_service_account(&wanted.name)) {
            // Which node is settled already; the right must hold for the node of any of the account's pods.
            _ if self == Self::AssociatedNode => ResourceAction { resource: "nodes", name: "*", ..base },
            (Some(name), _) => ResourceAction { resource: "nodes", name, ..base },
            (_, Some((namespace, name))) => ResourceAction { resource: "serviceaccounts", namespace, name, ..base },
            _ => ResourceAction { resource: "users", name: &wanted.name, ..base },
        };
        let mut actions = vec![user];
        if !wanted.uid.is_empty() {
            actions.push(ResourceAction { resource: "uids", name: &wanted.uid, ..base });
        }
        actions.extend(wanted.groups.iter().map(|name| ResourceAction { resource: "groups", name, ..base }));
        for (key, values) in &wanted.extra {
            let extra = ResourceAction { resource: "userextras", subresource: key, ..base };
            actions.extend(values.iter().map(|name| ResourceAction { name, ..extra }));
        }
        actions
    }

    fn user(self, mut wanted: User) -> User {
        match self {
            Self::AssociatedNode | Self::ArbitraryNode => {
                wanted.groups = vec!["system:nodes".to_owned(), AUTHENTICATED_GROUP.to_owned()];
            }
            Self::ServiceAccount => {
                if let Some((namespace, _)) = split_service_account(&wanted.name) {
                    wanted.groups = service_account_groups(namespace);
                }
            }
            Self::UserInfo => {}
        }
        impersonation::into_user(wanted)
    }
}

/// Users and groups that no constrained mode grants, independent of the rules.
fn refuse_sensitive(caller: &User, verb: &str, wanted: &User) -> Result<(), Status> {
    let base = ResourceAction { verb, group: AUTHENTICATION_GROUP, version: "v1", ..ResourceAction::default() };
    let refuse = |resource: &str, name: &str, reason: &str| {
        let action = Action::Resource(ResourceAction { resource, name, ..base });
        Err(refusal::forbidden(caller, &action, reason))
    };
    if wanted.groups.iter().any(String::is_empty) {
        return refuse("groups", "", "impersonating the empty string group is not allowed");
    }
    if wanted.groups.iter().any(|group| group == MASTERS_GROUP) {
        return refuse("groups", MASTERS_GROUP, "impersonating the system:masters group is not allowed");
    }
    for (key, values) in &wanted.extra {
        let prefixed = key
            .split_once('/')
            .is_some_and(|(domain, path)| names::dns1123_subdomain(domain).is_empty() && !path.is_empty());
        if !prefixed || *key != key.to_lowercase() {
            return refuse("userextras", "", "impersonating an invalid key in extra is not allowed");
        }
        if values.iter().any(String::is_empty) {
            return refuse("userextras", "", "impersonating the empty string value in extra is not allowed");
        }
    }
    Ok(())
}

fn node_name(user: &str) -> Option<&str> {
    user.strip_prefix("system:node:").filter(|name| names::dns1123_subdomain(name).is_empty())
}
