//! Privilege escalation checks on writes of roles and bindings: a user can only grant permissions they hold.

use object::request::User;
use object::{GroupResource, Object, Status};

use crate::aggregation::is_aggregated;
use crate::index::PolicyIndex;
use crate::rule::{PolicyRule, rules_of};
use crate::{Action, ResourceAction};

pub const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

/// Checks that the user may write this Role or ClusterRole: by holding all its rules, or by the verb `escalate`.
/// `old` is the stored object on an update.
pub fn check_role_write(index: &PolicyIndex, user: &User, new: &Object, old: Option<&Object>) -> Result<(), Status> {
    let (resource, namespace) = match new.kind() {
        "ClusterRole" => ("clusterroles", ""),
        _ => ("roles", new.namespace()),
    };
    let escalate = ResourceAction {
        verb: "escalate",
        group: RBAC_GROUP,
        version: "*",
        resource,
        namespace,
        name: new.name(),
        ..Default::default()
    };
    let unchanged = old.is_some_and(|old| differs_only_in_owners(new, old));
    if unchanged || index.authorize(user, &Action::Resource(escalate)).allowed {
        return Ok(());
    }
    let refuse = |text: String| Status::forbidden(&GroupResource::new(RBAC_GROUP, resource), new.name(), text);
    index.covers(user, namespace, &rules_of(new)).map_err(refuse)?;
    // An aggregated role can collect any rule, so writing one requires full authority.
    if is_aggregated(new) || old.is_some_and(is_aggregated) {
        index
            .covers(user, namespace, &PolicyRule::full_authority())
            .map_err(|_| refuse("must have cluster-admin privileges to use the aggregationRule".into()))?;
    }
    Ok(())
}

/// Checks that the user may write this RoleBinding or ClusterRoleBinding: by holding all rules of its role, or by the
/// verb `bind` on that role.
pub fn check_binding_write(index: &PolicyIndex, user: &User, new: &Object, old: Option<&Object>) -> Result<(), Status> {
    let (resource, namespace) = match new.kind() {
        "ClusterRoleBinding" => ("clusterrolebindings", ""),
        _ => ("rolebindings", new.namespace()),
    };
    if user.is_master() || old.is_some_and(|old| differs_only_in_owners(new, old)) {
        return Ok(());
    }
    let role_kind = new.str_at(&["roleRef", "kind"]);
    let role_name = new.str_at(&["roleRef", "name"]);
    let role_resource = if role_kind == "Role" { "roles" } else { "clusterroles" };
    let bind = ResourceAction {
        verb: "bind",
        group: new.str_at(&["roleRef", "apiGroup"]),
        version: "*",
        resource: role_resource,
        namespace,
        name: role_name,
        ..Default::default()
    };
    if matches!(role_kind, "Role" | "ClusterRole") && index.authorize(user, &Action::Resource(bind)).allowed {
        return Ok(());
    }
    let rules = index.rules_of_role(role_kind, namespace, role_name).map_err(|text| match role_kind {
        // kube-apiserver names the missing role, but with the resource of the kind being written.
        "Role" | "ClusterRole" => Status::not_found(&GroupResource::new(RBAC_GROUP, resource), role_name),
        _ => Status::internal(text),
    })?;
    let refuse = |text: String| Status::forbidden(&GroupResource::new(RBAC_GROUP, resource), new.name(), text);
    index.covers(user, namespace, rules).map_err(refuse)
}

/// Garbage collection edits owners and finalizers of roles it could not grant.
fn differs_only_in_owners(new: &Object, old: &Object) -> bool {
    let stripped = |object: &Object| {
        let mut object = object.clone();
        for field in ["ownerReferences", "finalizers", "managedFields"] {
            object.remove(&["metadata", field]);
        }
        object
    };
    stripped(new) == stripped(old)
}
