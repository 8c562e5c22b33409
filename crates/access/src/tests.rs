//! Cases for rules, decisions, escalation, impersonation, aggregation and default policy.

use std::collections::BTreeMap;

use object::Object;
use object::request::User;
use serde_json::{Value, json};

use crate::defaults::{self, Correction};
use crate::escalation::{check_binding_write, check_role_write};
use crate::impersonation;
use crate::rule::{PolicyRule, rules_of, uncovered};
use crate::{Action, PolicyIndex, ResourceAction, aggregation};

const GROUP: &str = "rbac.authorization.k8s.io";

fn object(value: Value) -> Object {
    Object::from_value(value).expect("a map")
}

/// `VERBS GROUP RESOURCES [NAMES]`, comma-separated, `-` for the core group; `VERBS PATHS` for paths.
fn rule(text: &str) -> Value {
    let list = |word: &str| word.split(',').map(|w| if w == "-" { "" } else { w }.to_owned()).collect::<Vec<_>>();
    match text.split(' ').collect::<Vec<_>>()[..] {
        [verbs, paths] => json!({"verbs": list(verbs), "nonResourceURLs": list(paths)}),
        [verbs, groups, resources] => {
            json!({"verbs": list(verbs), "apiGroups": list(groups), "resources": list(resources)})
        }
        [verbs, groups, resources, names] => json!({"verbs": list(verbs), "apiGroups": list(groups),
            "resources": list(resources), "resourceNames": list(names)}),
        _ => panic!("not a rule: {text}"),
    }
}

fn role(namespace: &str, name: &str, rules: &[&str]) -> Object {
    let rules: Vec<Value> = rules.iter().map(|text| rule(text)).collect();
    let kind = if namespace.is_empty() { "ClusterRole" } else { "Role" };
    object(json!({"apiVersion": format!("{GROUP}/v1"), "kind": kind, "rules": rules,
        "metadata": {"name": name, "namespace": namespace}}))
}

fn binding(namespace: &str, name: &str, role: &str, subject: Value) -> Object {
    let kind = if namespace.is_empty() { "ClusterRoleBinding" } else { "RoleBinding" };
    let (role_kind, role_name) = role.split_once('/').expect("kind and name");
    object(json!({"apiVersion": format!("{GROUP}/v1"), "kind": kind, "subjects": [subject],
        "roleRef": {"apiGroup": GROUP, "kind": role_kind, "name": role_name},
        "metadata": {"name": name, "namespace": namespace}}))
}

fn user_subject(name: &str) -> Value {
    json!({"kind": "User", "name": name, "apiGroup": GROUP})
}

/// jane has one cluster-wide role with the given rules.
fn jane_with(rules: &[&str]) -> (PolicyIndex, User) {
    let objects = [role("", "janes", rules), binding("", "jane", "ClusterRole/janes", user_subject("jane"))];
    (PolicyIndex::build(&objects), User::new("jane", &["dev"]))
}

/// `VERB GROUP RESOURCE[/SUB] [NAMESPACE/]NAME` or `VERB /path`.
fn allowed(index: &PolicyIndex, user: &User, action: &str) -> bool {
    match action.split(' ').collect::<Vec<_>>()[..] {
        [verb, path] => index.authorize(user, &Action::NonResource { verb, path }).allowed,
        [verb, group, resource, name] => {
            let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
            let (namespace, name) = name.split_once('/').unwrap_or(("", name));
            let group = if group == "-" { "" } else { group };
            let action = ResourceAction { verb, group, version: "v1", resource, subresource, namespace, name };
            index.authorize(user, &Action::Resource(action)).allowed
        }
        _ => panic!("not an action: {action}"),
    }
}

#[track_caller]
fn check(rules: &[&str], yes: &[&str], no: &[&str]) {
    let (index, jane) = jane_with(rules);
    for action in yes {
        assert!(allowed(&index, &jane, action), "{rules:?} should allow {action}");
    }
    for action in no {
        assert!(!allowed(&index, &jane, action), "{rules:?} should not allow {action}");
    }
}

#[test]
fn a_rule_allows_only_its_listed_verbs_and_resources() {
    check(&["get,list - pods"], &["get - pods a/x", "list - pods a/"], &["watch - pods a/", "get apps pods a/x"]);
    check(&["* * *"], &["get - pods a/x", "drain x.y z/w q"], &["get /healthz"]);
    check(&["get - pods"], &[], &["get - pods/log a/x"]);
    check(&["get - pods/log"], &["get - pods/log a/x"], &["get - pods a/x"]);
    check(
        &["get apps */scale"],
        &["get apps deployments/scale a/x"],
        &["get apps deployments a/x", "get - x/scale a/x"],
    );
    check(&["get - configmaps one"], &["get - configmaps a/one"], &["get - configmaps a/two", "get - configmaps a/"]);
    check(&["get /logs/*,/metrics"], &["get /logs/a/b", "get /metrics"], &["get /metrics/x", "post /metrics"]);
    check(&["* *"], &["get /anything", "delete /"], &["get - pods a/x"]);
}

#[test]
fn a_role_binding_counts_in_its_namespace_only() {
    let account = json!({"kind": "ServiceAccount", "name": "robot"});
    let objects = [role("", "reads", &["get - pods"]), binding("a", "robot", "ClusterRole/reads", account)];
    let mut index = PolicyIndex::build(&objects);
    let robot = User::service_account("a", "robot");
    assert!(allowed(&index, &robot, "get - pods a/x"));
    assert!(!allowed(&index, &robot, "get - pods b/x"));
    assert!(!allowed(&index, &robot, "get - pods x"));
    assert!(!allowed(&index, &User::service_account("b", "robot"), "get - pods a/x"));
    index.remove("RoleBinding", "a", "robot");
    assert!(!allowed(&index, &robot, "get - pods a/x"));
}

#[test]
fn the_reason_names_binding_role_and_subject() {
    let group = json!({"kind": "Group", "name": "dev", "apiGroup": GROUP});
    let objects = [
        role("", "reads", &["get - pods"]),
        role("a", "writes", &["create - pods"]),
        binding("", "devs", "ClusterRole/reads", group.clone()),
        binding("a", "devs-write", "Role/writes", group.clone()),
        binding("a", "lost", "Role/absent", group),
    ];
    let index = PolicyIndex::build(&objects);
    let reason = |verb| {
        let action = ResourceAction { verb, resource: "pods", namespace: "a", ..ResourceAction::default() };
        index.authorize(&User::new("jane", &["dev"]), &Action::Resource(action)).reason
    };
    assert_eq!(reason("get"), r#"RBAC: allowed by ClusterRoleBinding "devs" of ClusterRole "reads" to Group "dev""#);
    assert_eq!(reason("create"), r#"RBAC: allowed by RoleBinding "devs-write/a" of Role "writes" to Group "dev""#);
    assert_eq!(reason("delete"), r#"RBAC: role.rbac.authorization.k8s.io "absent" not found"#);
}

#[test]
fn a_changed_role_or_binding_counts_at_once() {
    let (mut index, jane) = jane_with(&["get - pods"]);
    index.upsert(&role("", "janes", &["list - pods"]));
    assert!(allowed(&index, &jane, "list - pods a/") && !allowed(&index, &jane, "get - pods a/x"));
    index.upsert(&binding("", "jane", "ClusterRole/janes", user_subject("joe")));
    assert!(!allowed(&index, &jane, "list - pods a/"));
    assert!(allowed(&index, &User::new("joe", &[]), "list - pods a/"));
}

#[test]
fn members_of_system_masters_need_no_rule() {
    let root = User::new("root", &["system:masters"]);
    assert!(allowed(&PolicyIndex::default(), &root, "delete - nodes x"));
}

#[track_caller]
fn check_uncovered(held: &[&str], wanted: &str, missing: &[&str]) {
    let read = |texts: &[&str]| texts.iter().map(|t| PolicyRule::from_value(&rule(t))).collect::<Vec<_>>();
    assert_eq!(uncovered(&read(held), &read(&[wanted])), read(missing), "{held:?} over {wanted}");
}

#[test]
fn rules_cover_each_other_by_their_smallest_parts() {
    check_uncovered(&["get - pods", "list - pods"], "get,list - pods", &[]);
    check_uncovered(&["get - pods"], "get,list - pods", &["list - pods"]);
    check_uncovered(&["* * *"], "get apps x/y n", &[]);
    check_uncovered(&["get - */log"], "get - pods/log,pods", &["get - pods"]);
    check_uncovered(&["get - pods one"], "get - pods", &["get - pods"]);
    check_uncovered(&["get - pods"], "get - pods one,two", &[]);
    check_uncovered(&["get /a/*"], "get /a/b,/c", &["get /c"]);
    check_uncovered(&["get * *"], "* - pods", &["* - pods"]);
}

#[test]
fn users_grant_only_permissions_they_hold() {
    let (index, jane) = jane_with(&["get - pods"]);
    let grant = role("a", "more", &["get,list,watch - pods", "get - secrets"]);
    let refusal = check_role_write(&index, &jane, &grant, None).expect_err("refused");
    assert_eq!(
        refusal.message,
        "roles.rbac.authorization.k8s.io \"more\" is forbidden: user \"jane\" (groups=[\"dev\"]) is attempting to \
         grant RBAC permissions not currently held:\n\
         {APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"list\" \"watch\"]}\n\
         {APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\"]}"
    );
    assert_eq!(check_role_write(&index, &jane, &role("a", "same", &["get - pods"]), None), Ok(()));
    let mut owned = grant.clone();
    owned.add_finalizer("x/y");
    assert_eq!(check_role_write(&index, &jane, &owned, Some(&grant)), Ok(()));
    let (escalating, jane) = jane_with(&["escalate rbac.authorization.k8s.io roles"]);
    assert_eq!(check_role_write(&escalating, &jane, &grant, None), Ok(()));
}

#[test]
fn binding_a_role_needs_its_rules_or_the_verb_bind() {
    let (mut index, jane) = jane_with(&["get - pods"]);
    index.upsert(&role("", "strong", &["* * *"]));
    index.upsert(&role("", "weak", &["get - pods"]));
    let to = |name: &str| binding("a", "b", &format!("ClusterRole/{name}"), user_subject("joe"));
    assert!(check_binding_write(&index, &jane, &to("strong"), None).is_err_and(|s| s.code == 403));
    assert!(check_binding_write(&index, &jane, &to("absent"), None).is_err_and(|s| s.code == 404));
    assert_eq!(check_binding_write(&index, &jane, &to("weak"), None), Ok(()));
    index.upsert(&role("", "janes", &["bind rbac.authorization.k8s.io clusterroles strong"]));
    assert_eq!(check_binding_write(&index, &jane, &to("strong"), None), Ok(()));
    assert!(check_binding_write(&index, &jane, &to("weak"), None).is_err());
}

#[test]
fn an_aggregation_rule_needs_every_right() {
    let mut gathering = role("", "sum", &[]);
    gathering.set(&["aggregationRule"], json!({"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}));
    let (index, jane) = jane_with(&["* * *"]);
    let refusal = check_role_write(&index, &User::new("joe", &[]), &gathering, None).expect_err("refused");
    assert!(refusal.message.ends_with("must have cluster-admin privileges to use the aggregationRule"));
    // `* * *` includes the verb escalate.
    assert_eq!(check_role_write(&index, &jane, &gathering, None), Ok(()));
}

#[test]
fn impersonation_requires_permission_for_each_attribute() {
    let wanted = User {
        name: "system:serviceaccount:a:robot".into(),
        uid: "7".into(),
        groups: vec!["dev".into()],
        extra: BTreeMap::from([("scopes".into(), vec!["s1".into()])]),
    };
    let asked: Vec<String> = impersonation::actions(&wanted)
        .iter()
        .map(|action| match action {
            Action::Resource(a) => {
                format!("{} {}/{}/{} {}/{}", a.verb, a.group, a.resource, a.subresource, a.namespace, a.name)
            }
            Action::NonResource { .. } => unreachable!("impersonation is about resources"),
        })
        .collect();
    assert_eq!(
        asked,
        [
            "impersonate /serviceaccounts/ a/robot",
            "impersonate /groups/ /dev",
            "impersonate authentication.k8s.io/userextras/scopes /s1",
            "impersonate authentication.k8s.io/uids/ /7",
        ]
    );
    assert_eq!(impersonation::check(&wanted), Ok(()));
    assert_eq!(impersonation::into_user(wanted).groups, ["dev", "system:authenticated"]);
    let groups = |user: &str| impersonation::into_user(User::new(user, &[])).groups;
    assert_eq!(
        groups("system:serviceaccount:a:robot"),
        ["system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated"]
    );
    assert_eq!(groups("system:anonymous"), ["system:unauthenticated"]);
    assert!(impersonation::check(&User::new("", &["g"])).is_err());
}

#[test]
fn view_edit_and_admin_gather_their_rules() {
    let mut roles = defaults::cluster_roles();
    // Repeated as a controller would: admin aggregates edit, which aggregates view.
    for _ in 0..3 {
        for index in 0..roles.len() {
            if let Some(rules) = aggregation::aggregate(&roles[index], &roles) {
                roles[index].set(&["rules"], rules.iter().map(PolicyRule::to_value).collect::<Vec<_>>());
            }
        }
    }
    let named = |name: &str| roles.iter().find(|r| r.name() == name).map(rules_of).expect("a default role");
    assert_eq!(uncovered(&named("admin"), &named("edit")), []);
    assert_eq!(uncovered(&named("edit"), &named("view")), []);
    assert!(!uncovered(&named("view"), &named("edit")).is_empty());
    assert!(roles.iter().all(|role| aggregation::aggregate(role, &roles).is_none()), "nothing left to gather");
}

#[test]
fn a_default_role_regains_lost_rules_and_keeps_added_ones() {
    let desired = role("", "r", &["get,list - pods"]);
    let mut existing = role("", "r", &["get - pods", "get - secrets"]);
    let Some(Correction::Update(corrected)) = defaults::reconcile(&existing, &desired) else { panic!("an update") };
    assert_eq!(corrected, role("", "r", &["get - pods", "get - secrets", "list - pods"]));
    assert_eq!(defaults::reconcile(&corrected, &desired), None);
    existing.set_annotation(defaults::AUTOUPDATE_ANNOTATION, "false");
    assert_eq!(defaults::reconcile(&existing, &desired), None);
    let wanted = binding("", "b", "ClusterRole/r", user_subject("jane"));
    let extra = binding("", "b", "ClusterRole/r", user_subject("joe"));
    let Some(Correction::Update(both)) = defaults::reconcile(&extra, &wanted) else { panic!("an update") };
    assert_eq!(both.items(&["subjects"]), [user_subject("joe"), user_subject("jane")]);
    let moved = binding("", "b", "ClusterRole/other", user_subject("jane"));
    assert_eq!(defaults::reconcile(&moved, &wanted), Some(Correction::Recreate(wanted.clone())));
}

#[test]
fn rules_that_are_no_longer_granted_by_default_are_taken_back_from_exact_roles_only() {
    let role = |resources: &str| {
        defaults::parse(&format!("clusterrole x\n  read | work.karmada.io | {resources}\n")).remove(0)
    };
    let (stored, mut desired) = (role("resourcebindings works"), role("resourcebindings"));
    assert_eq!(defaults::reconcile(&stored, &desired), None);
    desired.set_annotation(defaults::EXACT_ANNOTATION, "true");
    let Some(Correction::Update(corrected)) = defaults::reconcile(&stored, &desired) else { panic!("an update") };
    assert_eq!(corrected.get(&["rules"]), desired.get(&["rules"]));
    assert_eq!(defaults::reconcile(&corrected, &desired), None);
    let mut own = stored;
    own.set_annotation(defaults::AUTOUPDATE_ANNOTATION, "false");
    assert_eq!(defaults::reconcile(&own, &desired), None);
}

#[test]
fn every_default_matches_kubernetes() {
    for object in defaults::all() {
        assert_eq!(defaults::reconcile(&object, &object), None);
        assert_eq!(object.label(defaults::BOOTSTRAPPING_LABEL), Some("rbac-defaults"), "{}", object.name());
    }
}

#[test]
fn namespaces_of_a_user_are_those_of_its_role_bindings() {
    let group = json!({"kind": "Group", "name": "dev", "apiGroup": GROUP});
    let objects = [
        role("", "view", &["get - pods"]),
        binding("shop", "jane", "ClusterRole/view", user_subject("jane")),
        binding("docs", "dev", "ClusterRole/view", group),
        binding("bank", "joe", "ClusterRole/view", user_subject("joe")),
        binding("", "jane", "ClusterRole/view", user_subject("jane")),
    ];
    let mut index = PolicyIndex::build(&objects);
    let namespaces = |index: &PolicyIndex| index.namespaces_of(&User::new("jane", &["dev"]));
    assert_eq!(namespaces(&index), ["docs", "shop"].map(str::to_owned).into());
    index.remove("RoleBinding", "shop", "jane");
    assert_eq!(namespaces(&index), ["docs"].map(str::to_owned).into());
}
