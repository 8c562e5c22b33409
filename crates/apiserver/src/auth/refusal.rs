//! The texts of 403 answers, as kube-apiserver writes them.

use access::{Action, ResourceAction};
use object::field::go_quote;
use object::request::Subresource;
use object::request::User;
use object::{GroupResource, Status};

use crate::request::RequestInfo;

/// Returns the action to authorize for a request.
pub fn action_of(info: &RequestInfo) -> Action<'_> {
    if !info.is_resource {
        return Action::NonResource { verb: info.verb.as_str(), path: &info.path };
    }
    Action::Resource(ResourceAction {
        verb: info.verb.as_str(),
        group: &info.group,
        version: &info.version,
        resource: &info.resource,
        subresource: Subresource::name_of(info.subresource.as_ref()),
        namespace: &info.namespace,
        name: &info.name,
    })
}

pub fn forbidden(user: &User, action: &Action<'_>, reason: &str) -> Status {
    let (resource, name) = match action {
        Action::Resource(action) => (GroupResource::new(action.group, action.resource), action.name),
        Action::NonResource { .. } => (GroupResource::new("", ""), ""),
    };
    let mut text = sanitize(&describe(user, action));
    if !reason.is_empty() {
        text = format!("{text}: {reason}");
    }
    Status::forbidden(&resource, name, text)
}

fn describe(user: &User, action: &Action<'_>) -> String {
    let user = go_quote(&user.name);
    let action = match action {
        Action::NonResource { verb, path } => return format!("User {user} cannot {verb} path {}", go_quote(path)),
        Action::Resource(action) => action,
    };
    let resource = match action.subresource {
        "" => go_quote(action.resource),
        subresource => go_quote(&format!("{}/{subresource}", action.resource)),
    };
    let place = match action.namespace {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace {}", go_quote(namespace)),
    };
    format!("User {user} cannot {} resource {resource} in API group {} {place}", action.verb, go_quote(action.group))
}

/// Names come from the caller; they must not be read as HTML by a browser that shows the answer.
fn sanitize(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_have_the_text_of_kube_apiserver() {
        let resource = |action: ResourceAction<'static>| Action::Resource(action);
        let list = ResourceAction { verb: "list", resource: "pods", namespace: "default", ..Default::default() };
        let cases = [
            (
                resource(list),
                "",
                r#"pods is forbidden: User "x" cannot list resource "pods" in API group "" in the namespace "default""#,
            ),
            (
                resource(ResourceAction { verb: "get", namespace: "", name: "a", subresource: "log", ..list }),
                "",
                r#"pods "a" is forbidden: User "x" cannot get resource "pods/log" in API group "" at the cluster scope"#,
            ),
            (
                resource(ResourceAction { group: "apps", resource: "deployments", ..list }),
                "RBAC: role missing",
                r#"deployments.apps is forbidden: User "x" cannot list resource "deployments" in API group "apps" in the namespace "default": RBAC: role missing"#,
            ),
            (
                Action::NonResource { verb: "get", path: "/<foo>" },
                "",
                r#"forbidden: User "x" cannot get path "/&lt;foo&gt;""#,
            ),
        ];
        for (action, reason, expected) in cases {
            let status = forbidden(&User::new("x", &[]), &action, reason);
            assert_eq!((status.code, status.message.as_str()), (403, expected));
        }
    }
}
