//! Permissions: bindings, roles, groups, workspaces and folders → the roles of a user, with the bindings that grant them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use object::{Object, time};
use serde_json::Value;

/// Folders above a workspace that are followed; deeper trees are cut, and cycles end.
const FOLDER_DEPTH_MAX: usize = 32;

/// A role on the whole platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PlatformRole {
    /// Everything.
    Admin,
    /// All instances and the cluster inventory.
    InstanceOwner,
    /// Reads the audit log; sees names and states.
    Auditor,
    /// Users, groups, roles, bindings and workspaces.
    IamOwner,
}

impl PlatformRole {
    pub fn name(self) -> &'static str {
        match self {
            Self::Admin => "platform-admin",
            Self::InstanceOwner => "instance-owner",
            Self::Auditor => "auditor",
            Self::IamOwner => "iam-owner",
        }
    }
}

/// A role on an instance or one of its namespaces. A greater one includes the smaller ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum InstanceRole {
    View,
    Edit,
    Admin,
}

impl InstanceRole {
    pub fn name(self) -> &'static str {
        match self {
            Self::View => "view",
            Self::Edit => "edit",
            Self::Admin => "admin",
        }
    }
}

#[derive(Clone, Copy)]
enum AnyRole {
    Platform(PlatformRole),
    Instance(InstanceRole),
}

fn builtin(name: &str) -> Option<AnyRole> {
    Some(match name {
        "platform-admin" => AnyRole::Platform(PlatformRole::Admin),
        "instance-owner" => AnyRole::Platform(PlatformRole::InstanceOwner),
        "auditor" => AnyRole::Platform(PlatformRole::Auditor),
        "iam-owner" => AnyRole::Platform(PlatformRole::IamOwner),
        "admin" => AnyRole::Instance(InstanceRole::Admin),
        "edit" => AnyRole::Instance(InstanceRole::Edit),
        "view" => AnyRole::Instance(InstanceRole::View),
        _ => return None,
    })
}

/// The objects that decide.
#[derive(Clone, Debug, Default)]
pub struct GrantObjects {
    pub bindings: Vec<Arc<Object>>,
    pub roles: Vec<Arc<Object>>,
    pub groups: Vec<Arc<Object>>,
    pub workspaces: Vec<Arc<Object>>,
    pub folders: Vec<Arc<Object>>,
}

/// A user and the groups its credential proves.
#[derive(Clone, Debug, Default)]
pub struct Caller {
    pub name: String,
    /// The User object that has the name as an e-mail address.
    pub account: Option<String>,
    pub groups: BTreeSet<String>,
    /// Holds all rights without a binding.
    pub is_master: bool,
}

/// The rights of a caller on one instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstanceAccess {
    pub role: Option<InstanceRole>,
    /// Roles in single namespaces.
    pub namespaces: BTreeMap<String, InstanceRole>,
    /// The bindings that grant them.
    pub because: Vec<String>,
}

impl InstanceAccess {
    /// Returns true if the caller may know that the instance exists.
    pub fn sees_instance(&self) -> bool {
        self.role.is_some() || !self.namespaces.is_empty()
    }
}

impl GrantObjects {
    /// Returns the roles of a caller on the whole platform.
    pub fn platform_roles(&self, caller: &Caller, now: Timestamp) -> BTreeSet<PlatformRole> {
        if caller.is_master {
            return [PlatformRole::Admin].into();
        }
        let roles = self.bindings_of(caller, now).filter(|binding| target(binding).is_empty());
        roles
            .filter_map(|binding| self.role_of(binding))
            .filter_map(|role| match role {
                AnyRole::Platform(role) => Some(role),
                AnyRole::Instance(_) => None,
            })
            .collect()
    }

    /// Returns the users and groups that have a role on the whole platform, as kind and name. Local groups count as their
    /// members.
    pub fn platform_subjects(&self, role: &str, now: Timestamp) -> BTreeSet<(String, String)> {
        let mut subjects = BTreeSet::new();
        let is_meant = |binding: &&Arc<Object>| {
            let name = binding.str_at(&["spec", "role"]);
            let custom = self.roles.iter().find(|role| role.name() == name);
            let grants = custom.map_or(name, |role| role.str_at(&["spec", "grants"]));
            grants == role && target(binding).is_empty() && !binding.is_deleting() && !has_expired(binding, now)
        };
        for binding in self.bindings.iter().filter(is_meant) {
            let subject = |field: &str| binding.str_at(&["spec", "subject", field]).to_owned();
            let local = self.groups.iter().find(|group| subject("kind") == "Group" && group.name() == subject("name"));
            let members = local.map(|group| group.items(&["spec", "members"])).unwrap_or_default();
            subjects.extend(members.iter().filter_map(Value::as_str).map(|name| ("User".to_owned(), name.to_owned())));
            subjects.insert((subject("kind"), subject("name")));
        }
        subjects
    }

    /// Returns true if a binding gives the caller the role admin on an instance, a workspace or a folder.
    pub fn is_some_admin(&self, caller: &Caller, now: Timestamp) -> bool {
        let mut bindings = self.bindings_of(caller, now);
        bindings.any(|binding| {
            let is_admin = matches!(self.role_of(binding), Some(AnyRole::Instance(InstanceRole::Admin)));
            is_admin && target(binding).namespace.is_empty()
        })
    }

    /// Returns the rights of a caller on an instance.
    pub fn instance_access(&self, caller: &Caller, instance: &str, now: Timestamp) -> InstanceAccess {
        let mut access = InstanceAccess::default();
        let platform = self.platform_roles(caller, now);
        if platform.contains(&PlatformRole::Admin) || platform.contains(&PlatformRole::InstanceOwner) {
            access.role = Some(InstanceRole::Admin);
            access.because.push("a role on the platform".to_owned());
        }
        for binding in self.bindings_of(caller, now) {
            let Some(AnyRole::Instance(role)) = self.role_of(binding) else { continue };
            let before = access.clone();
            self.apply(binding, role, instance, &mut access);
            if access != before {
                access.because.push(format!("binding {}", binding.name()));
            }
        }
        access
    }

    fn apply(&self, binding: &Object, role: InstanceRole, instance: &str, access: &mut InstanceAccess) {
        let target = target(binding);
        if target.is_empty() || (target.instance == instance && target.namespace.is_empty()) {
            access.role = access.role.max(Some(role));
        } else if target.instance == instance {
            add_namespace(access, target.namespace, role);
        } else if !target.workspace.is_empty() || !target.folder.is_empty() {
            for workspace in &self.workspaces {
                let is_meant = target.workspace == workspace.name()
                    || (!target.folder.is_empty()
                        && self.is_below(workspace.str_at(&["spec", "folder"]), target.folder));
                if is_meant {
                    apply_workspace(workspace, role, instance, access);
                }
            }
        }
    }

    fn is_below(&self, folder: &str, ancestor: &str) -> bool {
        let mut current = folder;
        for _ in 0..FOLDER_DEPTH_MAX {
            if current.is_empty() || current == ancestor {
                break;
            }
            let found = self.folders.iter().find(|folder| folder.name() == current);
            current = found.map_or("", |folder| folder.str_at(&["spec", "parent"]));
        }
        !current.is_empty() && current == ancestor
    }

    fn role_of(&self, binding: &Object) -> Option<AnyRole> {
        let name = binding.str_at(&["spec", "role"]);
        builtin(name).or_else(|| {
            let role = self.roles.iter().find(|role| role.name() == name)?;
            builtin(role.str_at(&["spec", "grants"]))
        })
    }

    /// Returns the only User object with an e-mail address. Of an address that two users have, neither gets the rights.
    pub fn account_of(users: &[Arc<Object>], name: &str) -> Option<String> {
        let mut found = users.iter().filter(|user| has_email(user, name));
        let only = found.next().filter(|user| user.name() != name)?;
        found.next().is_none().then(|| only.name().to_owned())
    }

    fn bindings_of<'a>(&'a self, caller: &'a Caller, now: Timestamp) -> impl Iterator<Item = &'a Object> {
        let is_caller = |name: &str| name == caller.name || caller.account.as_deref() == Some(name);
        let is_member = |member: &Value| member.as_str().is_some_and(is_caller);
        let groups = self.groups.iter().filter(|group| group.items(&["spec", "members"]).iter().any(is_member));
        let local: BTreeSet<&str> = groups.map(|group| group.name()).collect();
        self.bindings.iter().map(|binding| &**binding).filter(move |binding| {
            let name = binding.str_at(&["spec", "subject", "name"]);
            let is_subject = match binding.str_at(&["spec", "subject", "kind"]) {
                "User" => is_caller(name),
                _ => caller.groups.contains(name) || local.contains(name),
            };
            is_subject && !binding.is_deleting() && !has_expired(binding, now)
        })
    }
}

/// Returns true if an e-mail address is one of a user's. Case does not matter.
pub fn has_email(user: &Object, email: &str) -> bool {
    let emails = user.items(&["spec", "emails"]).iter().filter_map(Value::as_str);
    email.contains('@') && emails.into_iter().any(|own| own.eq_ignore_ascii_case(email))
}

fn has_expired(binding: &Object, now: Timestamp) -> bool {
    match binding.str_at(&["spec", "expiresAt"]) {
        "" => false,
        // A time that cannot be read grants nothing.
        text => time::parse(text).is_none_or(|end| end <= now),
    }
}

struct Target<'a> {
    folder: &'a str,
    workspace: &'a str,
    instance: &'a str,
    namespace: &'a str,
}

impl Target<'_> {
    fn is_empty(&self) -> bool {
        [self.folder, self.workspace, self.instance, self.namespace].iter().all(|field| field.is_empty())
    }
}

fn target(binding: &Object) -> Target<'_> {
    let field = |name: &str| binding.str_at(&["spec", "target", name]);
    Target {
        folder: field("folder"),
        workspace: field("workspace"),
        instance: field("instance"),
        namespace: field("namespace"),
    }
}

fn apply_workspace(workspace: &Object, role: InstanceRole, instance: &str, access: &mut InstanceAccess) {
    if workspace.items(&["spec", "instances"]).iter().any(|name| name == instance) {
        access.role = access.role.max(Some(role));
    }
    for entry in workspace.items(&["spec", "namespaces"]) {
        if entry["instance"] == instance {
            add_namespace(access, entry["namespace"].as_str().unwrap_or_default(), role);
        }
    }
}

fn add_namespace(access: &mut InstanceAccess, namespace: &str, role: InstanceRole) {
    if !namespace.is_empty() {
        let current = access.namespaces.entry(namespace.to_owned()).or_insert(role);
        *current = (*current).max(role);
    }
}

/// Returns the spec of a binding, for tests and callers that build one.
pub fn binding_spec(kind: &str, subject: &str, role: &str, target: Value) -> Value {
    serde_json::json!({"subject": {"kind": kind, "name": subject}, "role": role, "target": target})
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(resource: &api::Resource, name: &str, spec: Value) -> Arc<Object> {
        let mut object = resource.object("", name);
        object.set(&["spec"], spec);
        Arc::new(object)
    }

    fn objects(bindings: &[Value]) -> GrantObjects {
        let bindings = bindings.iter().enumerate();
        GrantObjects {
            bindings: bindings.map(|(i, spec)| object(&crate::BINDINGS, &format!("b{i}"), spec.clone())).collect(),
            roles: vec![object(&crate::ROLES, "operators", json!({"grants": "edit"}))],
            groups: vec![object(&crate::GROUPS, "sre", json!({"members": ["ann"]}))],
            workspaces: vec![object(
                &crate::WORKSPACES,
                "shop",
                json!({"folder": "eu", "instances": ["east"],
                    "namespaces": [{"instance": "west", "namespace": "cart"}]}),
            )],
            folders: vec![
                object(&crate::FOLDERS, "eu", json!({"parent": "world"})),
                object(&crate::FOLDERS, "world", json!({"parent": "eu"})),
            ],
        }
    }

    /// Expects the role of ann on the instances east and west, and her namespaces in west.
    #[track_caller]
    fn check(bindings: &[Value], east: Option<InstanceRole>, west: Option<InstanceRole>, namespaces: &str) {
        let groups = ["oidc:dev".to_owned()].into();
        let caller = Caller { name: "ann".into(), groups, ..Caller::default() };
        let now = "2026-06-01T00:00:00Z".parse().expect("a time");
        let objects = objects(bindings);
        assert_eq!(objects.instance_access(&caller, "east", now).role, east, "{bindings:?}");
        let found = objects.instance_access(&caller, "west", now);
        assert_eq!(found.role, west, "{bindings:?}");
        let names: Vec<String> =
            found.namespaces.iter().map(|(name, role)| format!("{name}={}", role.name())).collect();
        assert_eq!(names.join(","), namespaces, "{bindings:?}");
    }

    #[test]
    fn roles_come_from_bindings_on_every_level() {
        use InstanceRole::{Admin, Edit, View};
        let user = |role: &str, target: Value| binding_spec("User", "ann", role, target);
        check(&[], None, None, "");
        check(&[user("view", json!({"instance": "east"}))], Some(View), None, "");
        check(
            &[user("view", json!({"instance": "east"})), user("edit", json!({"instance": "east"}))],
            Some(Edit),
            None,
            "",
        );
        check(&[user("edit", json!({"instance": "west", "namespace": "shop"}))], None, None, "shop=edit");
        check(&[user("admin", json!({"workspace": "shop"}))], Some(Admin), None, "cart=admin");
        check(&[user("view", json!({"folder": "world"}))], Some(View), None, "cart=view");
        check(&[user("view", json!({"folder": "mars"}))], None, None, "");
        check(&[user("platform-admin", Value::Null)], Some(Admin), Some(Admin), "");
        check(&[user("instance-owner", Value::Null)], Some(Admin), Some(Admin), "");
        check(&[user("auditor", Value::Null)], None, None, "");
        check(&[user("view", Value::Null)], Some(View), Some(View), "");
        check(&[user("operators", json!({"instance": "east"}))], Some(Edit), None, "");
        check(&[user("no-such-role", json!({"instance": "east"}))], None, None, "");
        check(&[binding_spec("Group", "sre", "edit", json!({"instance": "east"}))], Some(Edit), None, "");
        check(&[binding_spec("Group", "oidc:dev", "view", json!({"instance": "east"}))], Some(View), None, "");
        check(&[binding_spec("User", "bob", "admin", json!({"instance": "east"}))], None, None, "");
        check(&[binding_spec("Group", "ann", "admin", json!({"instance": "east"}))], None, None, "");
    }

    #[test]
    fn expired_bindings_grant_nothing() {
        let expiring = |at: &str| {
            let mut spec = binding_spec("User", "ann", "edit", json!({"instance": "east"}));
            spec["expiresAt"] = at.into();
            spec
        };
        check(&[expiring("2026-07-01T00:00:00Z")], Some(InstanceRole::Edit), None, "");
        check(&[expiring("2026-05-01T00:00:00Z")], None, None, "");
        check(&[expiring("tomorrow")], None, None, "");
    }

    #[test]
    fn an_e_mail_address_stands_for_the_only_user_who_has_it() {
        let user = |name: &str, emails: Value| object(&crate::USERS, name, json!({"emails": emails}));
        let users = [
            user("ann", json!(["ann@example.com", "shared@example.com"])),
            user("bob", json!(["shared@example.com"])),
            user("eve@example.com", json!(["eve@example.com"])),
        ];
        let check = |name: &str, expected: Option<&str>| {
            assert_eq!(GrantObjects::account_of(&users, name).as_deref(), expected, "{name}");
        };
        check("ann@example.com", Some("ann"));
        check("Ann@Example.com", Some("ann"));
        check("shared@example.com", None);
        check("eve@example.com", None);
        check("ann", None);
        let now = "2026-06-01T00:00:00Z".parse().expect("a time");
        let objects = objects(&[
            binding_spec("User", "ann", "view", json!({"instance": "east"})),
            binding_spec("Group", "sre", "edit", json!({"instance": "west"})),
        ]);
        let caller = |account: Option<&str>| Caller {
            name: "ann@example.com".into(),
            account: account.map(str::to_owned),
            ..Caller::default()
        };
        assert_eq!(objects.instance_access(&caller(Some("ann")), "east", now).role, Some(InstanceRole::View));
        assert_eq!(objects.instance_access(&caller(Some("ann")), "west", now).role, Some(InstanceRole::Edit));
        assert_eq!(objects.instance_access(&caller(None), "east", now).role, None);
    }
}
