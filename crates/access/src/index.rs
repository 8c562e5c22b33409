//! Roles and bindings, indexed so that authorizing takes a few hash lookups regardless of the number of bindings.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use object::field::go_quote;
use object::request::User;
use object::request::user::service_account_user;
use object::{Object, error_list};
use serde_json::Value;

use crate::rule::{ALL, PolicyRule, describe_missing, quote_list, rules_of, uncovered};
use crate::{AccessDecision, Action, ResourceAction};

/// Namespace of cluster roles and cluster role bindings.
const CLUSTER_WIDE: &str = "";

/// All RBAC policy of one API server. Cheap to update one object at a time; a clone is a snapshot.
#[derive(Clone, Default)]
pub struct PolicyIndex {
    roles: ByNamespace<Arc<Role>>,
    bindings: ByNamespace<Arc<Binding>>,
    users: HashMap<String, BindingsOfSubject>,
    groups: HashMap<String, BindingsOfSubject>,
}

/// namespace → name → value
type ByNamespace<T> = HashMap<String, HashMap<String, T>>;

/// namespace → bindings, ordered by name so that the reason is deterministic
type BindingsOfSubject = HashMap<String, Vec<BoundSubject>>;

/// A role with its rules indexed by resource.
struct Role {
    rules: Vec<PolicyRule>,
    by_resource: HashMap<String, Vec<usize>>,
    with_paths: Vec<usize>,
}

struct Binding {
    namespace: String,
    name: String,
    role_kind: String,
    role_name: String,
    subjects: Vec<PolicySubject>,
}

struct PolicySubject {
    kind: SubjectKind,
    /// Name of the user or group; a service account is a user here.
    name: String,
    /// `Group "z"`, as in authorization reasons.
    text: String,
}

#[derive(Clone, Copy, PartialEq)]
enum SubjectKind {
    User,
    Group,
}

#[derive(Clone)]
struct BoundSubject {
    binding: Arc<Binding>,
    subject: usize,
}

/// Everything a user may do in a namespace, for `SelfSubjectRulesReview`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RulesReview {
    pub resource_rules: Vec<PolicyRule>,
    pub non_resource_rules: Vec<PolicyRule>,
    /// Names roles that are bound but missing. The review is still complete: a missing role grants nothing.
    pub evaluation_error: String,
}

impl PolicyIndex {
    pub fn build<'a>(objects: impl IntoIterator<Item = &'a Object>) -> Self {
        let mut index = Self::default();
        for object in objects {
            index.upsert(object);
        }
        index
    }

    /// Adds or replaces a Role, ClusterRole, RoleBinding or ClusterRoleBinding; ignores other kinds.
    pub fn upsert(&mut self, object: &Object) {
        match object.kind() {
            "Role" | "ClusterRole" => {
                let roles = self.roles.entry(object.namespace().to_owned()).or_default();
                roles.insert(object.name().to_owned(), Arc::new(Role::new(rules_of(object))));
            }
            "RoleBinding" | "ClusterRoleBinding" => {
                self.remove_binding(object.namespace(), object.name());
                self.insert_binding(Arc::new(Binding::read(object)));
            }
            _ => {}
        }
    }

    /// Removes an object by kind, namespace (empty for cluster-scoped kinds) and name.
    pub fn remove(&mut self, kind: &str, namespace: &str, name: &str) {
        match kind {
            "Role" | "ClusterRole" => {
                if let Some(roles) = self.roles.get_mut(namespace) {
                    roles.remove(name);
                }
            }
            "RoleBinding" | "ClusterRoleBinding" => self.remove_binding(namespace, name),
            _ => {}
        }
    }

    fn insert_binding(&mut self, binding: Arc<Binding>) {
        for (index, subject) in binding.subjects.iter().enumerate() {
            let subjects = match subject.kind {
                SubjectKind::User => &mut self.users,
                SubjectKind::Group => &mut self.groups,
            };
            let scopes = subjects.entry(subject.name.clone()).or_default();
            let bound = scopes.entry(binding.namespace.clone()).or_default();
            let at = bound.partition_point(|b| b.binding.name <= binding.name);
            bound.insert(at, BoundSubject { binding: Arc::clone(&binding), subject: index });
        }
        let bindings = self.bindings.entry(binding.namespace.clone()).or_default();
        bindings.insert(binding.name.clone(), binding);
    }

    fn remove_binding(&mut self, namespace: &str, name: &str) {
        let Some(binding) = self.bindings.get_mut(namespace).and_then(|b| b.remove(name)) else { return };
        for subject in &binding.subjects {
            let subjects = match subject.kind {
                SubjectKind::User => &mut self.users,
                SubjectKind::Group => &mut self.groups,
            };
            let Some(scopes) = subjects.get_mut(&subject.name) else { continue };
            if let Some(bound) = scopes.get_mut(namespace) {
                bound.retain(|b| b.binding.name != name);
            }
            scopes.retain(|_, bound| !bound.is_empty());
            if scopes.is_empty() {
                subjects.remove(&subject.name);
            }
        }
    }

    /// Members of `system:masters` may do anything; all others need a rule.
    pub fn authorize(&self, user: &User, action: &Action<'_>) -> AccessDecision {
        if user.is_master() {
            return AccessDecision::allow("");
        }
        let question = AccessQuery::new(action);
        let mut missing_roles = Vec::new();
        for bound in self.bound_to(user, action.namespace()) {
            match self.role_of(&bound.binding) {
                Ok(role) if role.allows(&question) => return AccessDecision::allow(bound.describe()),
                Ok(_) => {}
                Err(text) => missing_roles.push(text),
            }
        }
        match error_list::joined(missing_roles) {
            text if text.is_empty() => AccessDecision::deny(""),
            text => AccessDecision::deny(format!("RBAC: {text}")),
        }
    }

    pub fn rules_for(&self, user: &User, namespace: &str) -> RulesReview {
        let (rules, missing_roles) = self.held_rules(user, namespace);
        let resource_rules = rules
            .iter()
            .filter(|r| !r.resources.is_empty())
            .map(|r| PolicyRule { non_resource_urls: Vec::new(), ..r.clone() });
        let non_resource_rules = rules.iter().filter(|r| !r.non_resource_urls.is_empty()).map(|r| PolicyRule {
            verbs: r.verbs.clone(),
            non_resource_urls: r.non_resource_urls.clone(),
            ..PolicyRule::default()
        });
        RulesReview {
            resource_rules: resource_rules.collect(),
            non_resource_rules: non_resource_rules.collect(),
            evaluation_error: error_list::joined(missing_roles),
        }
    }

    /// Returns the namespaces in which a RoleBinding names the user or one of its groups.
    pub fn namespaces_of(&self, user: &User) -> BTreeSet<String> {
        let groups = user.groups.iter().filter_map(|group| self.groups.get(group));
        let scopes = self.users.get(&user.name).into_iter().chain(groups).flat_map(HashMap::keys);
        scopes.filter(|scope| *scope != CLUSTER_WIDE).cloned().collect()
    }

    /// Checks that the user holds all of `rules` in the namespace (cluster-wide if empty); the error is the message
    /// of the refusal.
    pub fn covers(&self, user: &User, namespace: &str, rules: &[PolicyRule]) -> Result<(), String> {
        let (held, missing_roles) = self.held_rules(user, namespace);
        let missing = uncovered(&held, rules);
        if missing.is_empty() {
            return Ok(());
        }
        let mut text = format!(
            "user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
            go_quote(&user.name),
            quote_list(&user.groups),
            describe_missing(&missing).join("\n")
        );
        if !missing_roles.is_empty() {
            text.push_str(&format!("; resolution errors: [{}]", error_list::joined(missing_roles)));
        }
        Err(text)
    }

    /// The rules of the role that a binding in that namespace refers to, or the error in resolving it.
    pub fn rules_of_role(&self, kind: &str, namespace: &str, name: &str) -> Result<&[PolicyRule], String> {
        self.find_role(kind, namespace, name).map(|role| &role.rules[..])
    }

    fn held_rules(&self, user: &User, namespace: &str) -> (Vec<PolicyRule>, Vec<String>) {
        let (mut rules, mut missing_roles) = (Vec::new(), Vec::new());
        // A binding that names a user twice grants its rules once.
        let mut seen: Vec<*const Binding> = Vec::new();
        for bound in self.bound_to(user, namespace) {
            let address = Arc::as_ptr(&bound.binding);
            if seen.contains(&address) {
                continue;
            }
            seen.push(address);
            match self.role_of(&bound.binding) {
                Ok(role) => rules.extend(role.rules.iter().cloned()),
                Err(text) => missing_roles.push(text),
            }
        }
        (rules, missing_roles)
    }

    /// Bindings of the user: first cluster-wide, then in the namespace.
    fn bound_to<'a>(&'a self, user: &'a User, namespace: &'a str) -> impl Iterator<Item = &'a BoundSubject> {
        let scopes = [Some(CLUSTER_WIDE), (!namespace.is_empty()).then_some(namespace)];
        scopes.into_iter().flatten().flat_map(move |scope| {
            let groups = user.groups.iter().filter_map(|group| self.groups.get(group));
            let subjects = self.users.get(&user.name).into_iter().chain(groups);
            subjects.filter_map(move |bindings| bindings.get(scope)).flatten()
        })
    }

    fn role_of(&self, binding: &Binding) -> Result<&Role, String> {
        self.find_role(&binding.role_kind, &binding.namespace, &binding.role_name)
    }

    fn find_role(&self, kind: &str, namespace: &str, name: &str) -> Result<&Role, String> {
        let (scope, resource) = match kind {
            "ClusterRole" => (CLUSTER_WIDE, "clusterrole"),
            "Role" => (namespace, "role"),
            other => return Err(format!("unsupported role reference kind: {}", go_quote(other))),
        };
        let role = self.roles.get(scope).and_then(|roles| roles.get(name));
        role.map(Arc::as_ref)
            .ok_or_else(|| format!("{resource}.rbac.authorization.k8s.io {} not found", go_quote(name)))
    }
}

/// An action with the keys its rules are looked up by.
struct AccessQuery<'a> {
    action: &'a Action<'a>,
    resource_keys: [Option<String>; 2],
}

impl<'a> AccessQuery<'a> {
    fn new(action: &'a Action<'a>) -> Self {
        let resource_keys = match action {
            Action::Resource(ResourceAction { resource, subresource: "", .. }) => [Some((*resource).to_owned()), None],
            Action::Resource(ResourceAction { resource, subresource, .. }) => {
                [Some(format!("{resource}/{subresource}")), Some(format!("*/{subresource}"))]
            }
            Action::NonResource { .. } => [None, None],
        };
        Self { action, resource_keys }
    }
}

impl Role {
    fn new(rules: Vec<PolicyRule>) -> Self {
        let mut by_resource: HashMap<String, Vec<usize>> = HashMap::new();
        for (index, rule) in rules.iter().enumerate() {
            for resource in &rule.resources {
                by_resource.entry(resource.clone()).or_default().push(index);
            }
        }
        let with_paths = (0..rules.len()).filter(|i| !rules[*i].non_resource_urls.is_empty()).collect();
        Self { rules, by_resource, with_paths }
    }

    fn allows(&self, question: &AccessQuery<'_>) -> bool {
        match question.action {
            Action::Resource(action) => {
                let keys = question.resource_keys.iter().flatten().map(String::as_str).chain([ALL]);
                let rules = keys.filter_map(|key| self.by_resource.get(key)).flatten();
                rules.into_iter().any(|index| self.rules[*index].allows_resource(action))
            }
            Action::NonResource { verb, path } => {
                self.with_paths.iter().any(|index| self.rules[*index].allows_path(verb, path))
            }
        }
    }
}

impl Binding {
    fn read(object: &Object) -> Self {
        let namespace = object.namespace();
        Self {
            namespace: namespace.to_owned(),
            name: object.name().to_owned(),
            role_kind: object.str_at(&["roleRef", "kind"]).to_owned(),
            role_name: object.str_at(&["roleRef", "name"]).to_owned(),
            subjects: object.items(&["subjects"]).iter().filter_map(|s| PolicySubject::read(s, namespace)).collect(),
        }
    }

    fn describe(&self) -> String {
        let (kind, name) = match self.namespace.is_empty() {
            true => ("ClusterRoleBinding", self.name.clone()),
            false => ("RoleBinding", format!("{}/{}", self.name, self.namespace)),
        };
        format!("{kind} {} of {} {}", go_quote(&name), self.role_kind, go_quote(&self.role_name))
    }
}

impl PolicySubject {
    /// Returns `None` for a subject that cannot match any user.
    fn read(value: &Value, binding_namespace: &str) -> Option<Self> {
        let text = |key: &str| value[key].as_str().unwrap_or_default();
        let name = text("name");
        let plain =
            |kind, label: &str| Self { kind, name: name.to_owned(), text: format!("{label} {}", go_quote(name)) };
        match text("kind") {
            "User" => Some(plain(SubjectKind::User, "User")),
            "Group" => Some(plain(SubjectKind::Group, "Group")),
            "ServiceAccount" => {
                // A role binding may omit the namespace of a service account in its own namespace.
                let namespace = [text("namespace"), binding_namespace].into_iter().find(|n| !n.is_empty())?;
                Some(Self {
                    kind: SubjectKind::User,
                    name: service_account_user(namespace, name),
                    text: format!("ServiceAccount {}", go_quote(&format!("{name}/{namespace}"))),
                })
            }
            _ => None,
        }
    }
}

impl BoundSubject {
    fn describe(&self) -> String {
        let subject = &self.binding.subjects[self.subject];
        format!("RBAC: allowed by {} to {}", self.binding.describe(), subject.text)
    }
}
