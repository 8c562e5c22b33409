//! Requests and limits: resource names, and the relation of amounts.

use std::collections::{BTreeMap, BTreeSet};

use object::{FieldError, FieldErrorKind, names};
use serde_json::{Map, Value};

use super::super::amount::Amount;
use super::super::defaults::{map_at, map_or_new};
use super::super::fields::Field;

const STANDARD: [&str; 20] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.storage",
    "services.nodeports",
    "services.loadbalancers",
];

const COUNTED: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

pub fn is_huge_pages(name: &str) -> bool {
    name.starts_with("hugepages-")
}

fn is_quota_huge_pages(name: &str) -> bool {
    is_huge_pages(name) || name.starts_with("requests.hugepages-")
}

pub fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with("requests.") && names::qualified_name(&format!("requests.{name}")).is_empty()
}

/// Reports whether the resource can be overcommitted.
pub fn allows_overcommit(name: &str) -> bool {
    is_native(name) && !is_huge_pages(name)
}

/// A resource that quotas can limit by name.
pub fn is_standard_quota(name: &str) -> bool {
    name != "storage" && STANDARD.contains(&name) || is_quota_huge_pages(name)
}

/// Any resource at all: standard, or qualified with a domain.
pub fn validate_name(at: Field<'_>, name: &str) -> bool {
    let problems = names::qualified_name(name);
    if !problems.is_empty() {
        at.problems_as(name, problems);
        return false;
    }
    if !name.contains('/') && !STANDARD.contains(&name) && !is_quota_huge_pages(name) {
        at.invalid_as(name, "must be a standard resource type or fully qualified");
        return false;
    }
    true
}

/// A resource a container can request.
pub fn validate_container_name(at: Field<'_>, name: &str) {
    validate_name(at, name);
    if !name.contains('/') {
        if !matches!(name, "cpu" | "memory" | "ephemeral-storage") && !is_huge_pages(name) {
            at.invalid_as(name, "must be a standard resource for containers");
        }
    } else if !is_native(name) && !is_extended(name) {
        at.invalid_as(name, "doesn't follow extended resource name standard");
    }
}

fn validate_pod_name(at: Field<'_>, name: &str) {
    if validate_name(at, name) && !is_pod_level(name) {
        at.push(FieldError::not_supported(at.field_path(), name, &["cpu", "hugepages-", "memory"]));
    }
}

fn is_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || is_huge_pages(name)
}

/// An amount of a resource: not negative, and whole for countable resources.
pub fn validate_amount(at: Field<'_>, name: &str) {
    at.non_negative_amount();
    if (COUNTED.contains(&name) || is_extended(name)) && !at.amount().is_whole() {
        at.invalid_as(at.amount().to_string(), "must be an integer");
    }
}

pub fn validate_container(requirements: Field<'_>, claims: &[&str]) {
    validate_requirements(requirements, claims, validate_container_name);
}

pub fn validate_overhead(overhead: Field<'_>) {
    // Overhead is validated and reported like limits.
    let limits = overhead.field("limits").with(overhead.value());
    let mut about = Kinds::default();
    for (name, amount) in limits.entries() {
        validate_container_name(amount, name);
        validate_amount(amount, name);
        about.see(amount, name);
    }
    about.finish(overhead);
}

type NameRule = fn(Field<'_>, &str);

#[derive(Default)]
struct Kinds {
    compute: bool,
    huge_pages: bool,
}

impl Kinds {
    fn see(&mut self, amount: Field<'_>, name: &str) {
        self.compute |= matches!(name, "cpu" | "memory");
        if is_huge_pages(name) {
            self.huge_pages = true;
            if !is_multiple_of_page(name, amount.amount()) {
                let spelled = amount.amount().to_string();
                amount.invalid_as(spelled.clone(), format!("{spelled} is not positive integer multiple of {name}"));
            }
        }
    }

    fn finish(&self, requirements: Field<'_>) {
        if self.huge_pages && !self.compute {
            requirements.forbidden("HugePages require cpu or memory");
        }
    }
}

fn validate_requirements(requirements: Field<'_>, claims: &[&str], name_rule: NameRule) {
    let (limits, requests) = (requirements.field("limits"), requirements.field("requests"));
    let mut about = Kinds::default();
    for (name, amount) in limits.entries() {
        name_rule(amount, name);
        validate_amount(amount, name);
        about.see(amount, name);
    }
    for (name, amount) in requests.entries() {
        name_rule(amount, name);
        validate_amount(amount, name);
        let limit = limits.key(name);
        if limit.is_set() {
            validate_against_limit(requests, amount.amount(), limit.amount(), name);
        } else if !allows_overcommit(name) {
            limits.required("Limit must be set for non overcommitable resources");
        }
        about.see(amount, name);
    }
    about.finish(requirements);
    validate_claims(requirements.field("claims"), claims);
}

fn validate_against_limit(requests: Field<'_>, request: Amount, limit: Amount, name: &str) {
    if !request.same_as(limit) && !allows_overcommit(name) {
        requests.invalid_as(request.to_string(), format!("must be equal to {name} limit of {limit}"));
    } else if request > limit {
        requests.invalid_as(request.to_string(), format!("must be less than or equal to {name} limit of {limit}"));
    }
}

fn is_multiple_of_page(name: &str, amount: Amount) -> bool {
    let page = name.strip_prefix("hugepages-").and_then(Amount::parse);
    page.is_some_and(|page| page.is_positive() && page.is_whole() && amount.whole() % page.whole() == 0)
}

/// Claims of a container must be among those of its pod.
fn validate_claims(claims: Field<'_>, known: &[&str]) {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    for claim in claims.items() {
        let (name, request) = (claim.field("name").text(), claim.field("request"));
        if name.is_empty() {
            claim.required("");
            continue;
        }
        if seen.contains(name) {
            claim.duplicate_as(name);
        } else {
            let mut key = name.to_owned();
            if !request.is_empty() {
                request.dns1123_label();
                key = format!("{name}/{}", request.text());
            }
            let prefix = format!("{name}/");
            if seen.contains(&key) {
                claim.duplicate_as(key.clone());
            } else if request.is_empty() && seen.iter().any(|other| other.starts_with(&prefix)) {
                claim.duplicate_as(name);
            }
            seen.insert(key);
        }
        if !known.contains(&name) {
            let mut sorted = known.to_vec();
            sorted.sort_unstable();
            let rest = if known.is_empty() { " which is empty".to_owned() } else { format!(": {}", sorted.join(", ")) };
            claim.push(FieldError {
                kind: FieldErrorKind::NotFound,
                path: claim.field_path(),
                value: Some(name.into()),
                detail: format!("must be one of the names in pod.spec.resourceClaims{rest}"),
            });
        }
    }
}

/// The resource claims of a pod; returns their names.
pub fn validate_pod_claims<'a>(claims: Field<'a>, is_mirror: bool) -> Vec<&'a str> {
    let mut names = BTreeSet::new();
    for claim in claims.items() {
        if is_mirror {
            claim.push(FieldError::forbidden(
                object::FieldPath::new("[]"),
                "static pods do not support resource claims",
            ));
            continue;
        }
        let name = claim.field("name");
        if name.require() {
            if names.insert(name.text()) {
                name.dns1123_label();
            } else {
                name.duplicate();
            }
        }
        let (direct, template) = (claim.field("resourceClaimName"), claim.field("resourceClaimTemplateName"));
        match (direct.is_set(), template.is_set()) {
            (true, true) => claim.invalid_internal(
                "SPodResourceClaim",
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
            ),
            (false, false) => {
                claim.invalid_internal(
                    "SPodResourceClaim",
                    "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
                );
            }
            _ => {}
        }
        for reference in [direct, template] {
            if reference.is_set() {
                reference.dns1123_subdomain();
            }
        }
    }
    claims.items().map(|c| c.field("name").text()).filter(|name| !name.is_empty()).collect()
}

// ---- pod-level resources ----

pub fn validate_pod_level(spec: Field<'_>, claims: &[&str]) {
    let resources = spec.field("resources");
    if !resources.is_set() {
        return;
    }
    if spec.field("os").field("name").text() == "windows" {
        return resources.forbidden("may not be set for a windows pod");
    }
    if resources.field("claims").is_set() {
        resources.field("claims").forbidden("claims may not be set for Resources at pod-level");
    }
    validate_requirements(resources, claims, validate_pod_name);
    let (requests, limits) = (resources.field("requests"), resources.field("limits"));
    for (name, needed) in aggregate(spec.value(), "requests") {
        let have = requests.key(name);
        if have.is_set() && needed > have.amount() {
            have.invalid_as(
                have.amount().to_string(),
                format!("must be greater than or equal to aggregate container requests of {needed}"),
            );
        }
    }
    for (name, needed) in aggregate(spec.value(), "limits") {
        let have = limits.key(name);
        if is_huge_pages(name) && have.is_set() && needed > have.amount() {
            have.invalid_as(
                have.amount().to_string(),
                format!("must be greater than or equal to aggregate container limits of {needed}"),
            );
        }
    }
    for (index, container) in spec.field("containers").items().enumerate() {
        for (name, limit) in container.field("resources").field("limits").entries() {
            let most = limits.key(name);
            if most.is_set() && limit.amount() > most.amount() {
                let at = resources.field("containers").index(index).key(name).field("limits");
                at.invalid_as(
                    limit.amount().to_string(),
                    format!("must be less than or equal to pod limits of {}", most.amount()),
                );
            }
        }
    }
}

/// The total of all containers: the sum of those that run concurrently, or the largest init step.
pub fn aggregate<'a>(spec: Option<&'a Value>, list: &str) -> BTreeMap<&'a str, Amount> {
    let containers = |name: &str| spec.and_then(|s| s.get(name)).and_then(Value::as_array).into_iter().flatten();
    let amounts = |container: &'a Value| {
        let list = container.get("resources").and_then(|r| r.get(list)).and_then(Value::as_object);
        list.into_iter().flatten().filter_map(|(name, value)| Some((name.as_str(), Amount::of(value)?)))
    };
    let add = |total: &mut BTreeMap<&'a str, Amount>, name: &'a str, amount: Amount| {
        let sum = total.get(name).map_or(amount, |have| have.plus(amount));
        total.insert(name, sum);
    };
    let mut total = BTreeMap::new();
    for container in containers("containers") {
        amounts(container).for_each(|(name, amount)| add(&mut total, name, amount));
    }
    let (mut sidecars, mut peak): (BTreeMap<&str, Amount>, BTreeMap<&str, Amount>) = Default::default();
    for container in containers("initContainers") {
        let is_sidecar = container.get("restartPolicy").and_then(Value::as_str) == Some("Always");
        let mut step = sidecars.clone();
        for (name, amount) in amounts(container) {
            add(&mut step, name, amount);
            if is_sidecar {
                add(&mut sidecars, name, amount);
                add(&mut total, name, amount);
            }
        }
        for (name, amount) in step {
            let most = peak.get(name).map_or(amount, |have: &Amount| have.max(amount));
            peak.insert(name, most);
        }
    }
    for (name, amount) in peak {
        let most = total.get(name).map_or(amount, |have| have.max(amount));
        total.insert(name, most);
    }
    total
}

/// Pod-level limits and requests derived from the containers, if the client set some of them.
pub fn default_pod_level(spec: &mut Map<String, Value>) {
    if !spec.get("resources").is_some_and(Value::is_object) {
        return;
    }
    let snapshot = Value::Object(spec.clone());
    let Some(resources) = map_at(spec, "resources") else { return };
    let has = |resources: &Map<String, Value>, list: &str, name: &str| {
        resources.get(list).and_then(|l| l.get(name)).is_some()
    };
    let count =
        |resources: &Map<String, Value>, list: &str| resources.get(list).and_then(Value::as_object).map_or(0, Map::len);
    if count(resources, "limits") + count(resources, "requests") > 0 {
        for (name, amount) in aggregate(Some(&snapshot), "limits") {
            if is_huge_pages(name) && !has(resources, "requests", name) && !has(resources, "limits", name) {
                set_in(resources, "limits", name, amount.to_string().into());
            }
        }
    }
    if count(resources, "limits") == 0 {
        return;
    }
    for (name, amount) in aggregate(Some(&snapshot), "requests") {
        if is_pod_level(name) && allows_overcommit(name) && !has(resources, "requests", name) {
            set_in(resources, "requests", name, amount.to_string().into());
        }
    }
    let limits = resources.get("limits").and_then(Value::as_object).cloned().unwrap_or_default();
    for (name, limit) in limits {
        if is_pod_level(&name) && !has(resources, "requests", &name) {
            set_in(resources, "requests", &name, limit);
        }
    }
}

fn set_in(resources: &mut Map<String, Value>, list: &str, name: &str, value: Value) {
    if let Some(list) = map_or_new(resources, list) {
        list.insert(name.to_owned(), value);
    }
}
