//! FlowSchemas compiled: finds the first one that matches a request.

use std::collections::HashMap;
use std::sync::Arc;

use object::Object;
use object::request::User;
use object::request::user::split_service_account;
use serde_json::Value;

use super::Classified;
use crate::request::RequestInfo;

/// Mandatory objects: without them in the store they still apply.
const CATCH_ALL: &str = "catch-all";
const EXEMPT: &str = "exempt";
const CATCH_ALL_SHARES: u64 = 5;
const QUEUE_LENGTH_MAX: u64 = 1_000;
const QUEUES_MAX: u64 = 1_024;

#[derive(Debug)]
pub struct Classifier {
    /// By precedence, then by name.
    schemas: Vec<FlowSchema>,
    pub levels: HashMap<String, LevelConfig>,
}

#[derive(Debug)]
struct FlowSchema {
    name: String,
    uid: String,
    precedence: i64,
    level: String,
    distinguisher: Distinguisher,
    rules: Vec<FlowRule>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Distinguisher {
    None,
    ByUser,
    ByNamespace,
}

#[derive(Debug)]
struct FlowRule {
    subjects: Vec<Value>,
    resources: Vec<Value>,
    paths: Vec<Value>,
}

/// The limits of a priority level, as configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LevelConfig {
    pub uid: String,
    pub is_exempt: bool,
    pub shares: u64,
    /// Percent of the seats that other levels may use while they are idle here.
    pub lendable_percent: u64,
    /// Percent of the own seats that may be borrowed on top; `None` for any number.
    pub borrowing_percent: Option<u64>,
    /// None where requests are refused instead of queued.
    pub queues: usize,
    pub hand: usize,
    pub queue_length_max: usize,
}

impl Classifier {
    pub fn compile(objects: &[Vec<Arc<Object>>]) -> Self {
        let (schemas, levels) = match objects {
            [schemas, levels] => (&schemas[..], &levels[..]),
            _ => (&[][..], &[][..]),
        };
        let mut levels: HashMap<String, LevelConfig> =
            levels.iter().map(|level| (level.name().to_owned(), LevelConfig::read(level))).collect();
        let exempt = LevelConfig { is_exempt: true, ..LevelConfig::default() };
        levels.entry(EXEMPT.to_owned()).or_insert(exempt);
        let catch_all = LevelConfig { shares: CATCH_ALL_SHARES, ..LevelConfig::default() };
        levels.entry(CATCH_ALL.to_owned()).or_insert(catch_all);
        let mut schemas: Vec<FlowSchema> = schemas.iter().map(|schema| FlowSchema::read(schema)).collect();
        // One that names a missing level matches nothing.
        schemas.retain(|schema| levels.contains_key(&schema.level));
        schemas.sort_by(|a, b| a.precedence.cmp(&b.precedence).then_with(|| a.name.cmp(&b.name)));
        Self { schemas, levels }
    }

    #[cfg(test)]
    pub fn of_levels(levels: HashMap<String, LevelConfig>) -> Self {
        Self { schemas: Vec::new(), levels }
    }

    pub fn classify(&self, user: &User, info: &RequestInfo) -> Classified {
        // Administrators get through whatever the stored objects say.
        let found = match user.is_master() {
            true => self.schemas.iter().find(|schema| schema.name == EXEMPT),
            false => self.schemas.iter().find(|schema| schema.matches(user, info)),
        };
        let level = match (found, user.is_master()) {
            (_, true) => EXEMPT,
            (Some(schema), false) => &schema.level,
            (None, false) => CATCH_ALL,
        };
        let name = found.map_or(CATCH_ALL, |schema| schema.name.as_str());
        let flow = match found.map(|schema| schema.distinguisher) {
            Some(Distinguisher::ByUser) => format!("{name}/{}", user.name),
            Some(Distinguisher::ByNamespace) => format!("{name}/{}", info.namespace),
            _ => name.to_owned(),
        };
        let config = self.levels.get(level);
        Classified {
            schema_uid: found.map(|schema| schema.uid.clone()).unwrap_or_default(),
            level_uid: config.map(|config| config.uid.clone()).unwrap_or_default(),
            level: level.to_owned(),
            flow,
            is_exempt: config.is_none_or(|config| config.is_exempt),
        }
    }
}

impl LevelConfig {
    fn read(level: &Object) -> Self {
        let number = |path: &[&str]| level.i64_at(path).and_then(|number| u64::try_from(number).ok());
        let queuing = |field: &str| number(&["spec", "limited", "limitResponse", "queuing", field]);
        let queues = match level.str_at(&["spec", "limited", "limitResponse", "type"]) {
            "Queue" => queuing("queues").unwrap_or(64).clamp(1, QUEUES_MAX),
            _ => 0,
        };
        Self {
            uid: level.uid().to_owned(),
            is_exempt: level.str_at(&["spec", "type"]) == "Exempt",
            shares: number(&["spec", "limited", "nominalConcurrencyShares"]).unwrap_or(30),
            lendable_percent: number(&["spec", "limited", "lendablePercent"]).unwrap_or(0).min(100),
            borrowing_percent: number(&["spec", "limited", "borrowingLimitPercent"]),
            queues: queues as usize,
            hand: queuing("handSize").unwrap_or(8).clamp(1, queues.max(1)) as usize,
            queue_length_max: queuing("queueLengthLimit").unwrap_or(50).clamp(1, QUEUE_LENGTH_MAX) as usize,
        }
    }
}

impl FlowSchema {
    fn read(schema: &Object) -> Self {
        let distinguisher = match schema.str_at(&["spec", "distinguisherMethod", "type"]) {
            "ByUser" => Distinguisher::ByUser,
            "ByNamespace" => Distinguisher::ByNamespace,
            _ => Distinguisher::None,
        };
        let list = |rule: &Value, key: &str| rule[key].as_array().cloned().unwrap_or_default();
        let rules = schema.items(&["spec", "rules"]).iter().map(|rule| FlowRule {
            subjects: list(rule, "subjects"),
            resources: list(rule, "resourceRules"),
            paths: list(rule, "nonResourceRules"),
        });
        Self {
            name: schema.name().to_owned(),
            uid: schema.uid().to_owned(),
            precedence: schema.i64_at(&["spec", "matchingPrecedence"]).unwrap_or(1_000),
            level: schema.str_at(&["spec", "priorityLevelConfiguration", "name"]).to_owned(),
            distinguisher,
            rules: rules.collect(),
        }
    }

    fn matches(&self, user: &User, info: &RequestInfo) -> bool {
        let is_about = |rule: &FlowRule| match info.is_resource {
            true => rule.resources.iter().any(|resources| has_resource(resources, info)),
            false => rule.paths.iter().any(|paths| has_path(paths, info)),
        };
        let of_rule = |rule: &FlowRule| rule.subjects.iter().any(|subject| is_subject(subject, user)) && is_about(rule);
        self.rules.iter().any(of_rule)
    }
}

fn is_subject(subject: &Value, user: &User) -> bool {
    let name = |kind: &str| subject[kind]["name"].as_str().unwrap_or_default();
    match subject["kind"].as_str() {
        Some("User") => matches!(name("user"), "*") || name("user") == user.name,
        Some("Group") => name("group") == "*" || user.groups.iter().any(|group| group == name("group")),
        Some("ServiceAccount") => {
            let Some((namespace, account)) = split_service_account(&user.name) else { return false };
            let wanted = name("serviceAccount");
            subject["serviceAccount"]["namespace"] == namespace && (wanted == "*" || wanted == account)
        }
        _ => false,
    }
}

fn has(list: &Value, found: &str) -> bool {
    list.as_array().into_iter().flatten().any(|wanted| wanted == "*" || wanted == found)
}

fn has_resource(rule: &Value, info: &RequestInfo) -> bool {
    let resource = match &info.subresource {
        None => info.resource.clone(),
        Some(subresource) => format!("{}/{}", info.resource, subresource.as_str()),
    };
    let in_scope = match info.namespace.as_str() {
        "" => rule["clusterScope"] == true,
        namespace => has(&rule["namespaces"], namespace),
    };
    in_scope
        && has(&rule["verbs"], info.verb.as_str())
        && has(&rule["apiGroups"], &info.group)
        && has(&rule["resources"], &resource)
}

fn has_path(rule: &Value, info: &RequestInfo) -> bool {
    let is_path = |wanted: &Value| match wanted.as_str().unwrap_or_default() {
        "*" => true,
        wanted => wanted.strip_suffix('*').map_or(wanted == info.path, |prefix| info.path.starts_with(prefix)),
    };
    has(&rule["verbs"], info.verb.as_str()) && rule["nonResourceURLs"].as_array().into_iter().flatten().any(is_path)
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    fn stored() -> Classifier {
        let mut kinds = [Vec::new(), Vec::new()];
        for (_, plural, value) in super::super::default_objects() {
            let object = Arc::new(Object::from_value(value).expect("a map"));
            kinds[usize::from(plural != "flowschemas")].push(object);
        }
        Classifier::compile(&kinds)
    }

    #[track_caller]
    fn check(user: &str, groups: &[&str], method: &str, path: &str, level: &str, flow: &str) {
        let info = RequestInfo::parse(&method.parse::<Method>().expect("a method"), path, "");
        let mut user = User::new(user, groups);
        user.groups.push("system:authenticated".to_owned());
        let found = stored().classify(&user, &info);
        assert_eq!((found.level.as_str(), found.flow.as_str()), (level, flow), "{} {method} {path}", user.name);
        assert_eq!(found.is_exempt, level == "exempt");
    }

    #[test]
    fn the_default_schemas_sort_requests_as_in_kubernetes() {
        let pods = "/api/v1/namespaces/a/pods";
        let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/l";
        check("admin", &["system:masters"], "GET", pods, "exempt", "exempt");
        check("bob", &[], "GET", "/healthz", "exempt", "probes");
        check("bob", &[], "GET", pods, "global-default", "global-default/bob");
        check(
            "system:node:n",
            &["system:nodes"],
            "PATCH",
            "/api/v1/nodes/n/status",
            "node-high",
            "system-node-high/system:node:n",
        );
        check("system:node:n", &["system:nodes"], "GET", pods, "system", "system-nodes/system:node:n");
        let account = "system:serviceaccount:kube-system:x";
        check(account, &["system:serviceaccounts"], "GET", pods, "workload-high", "kube-system-service-accounts/a");
        check(
            account,
            &["system:serviceaccounts"],
            "PUT",
            lease,
            "leader-election",
            &format!("system-leader-election/{account}"),
        );
        let other = "system:serviceaccount:a:x";
        check(other, &["system:serviceaccounts"], "GET", pods, "workload-low", &format!("service-accounts/{other}"));
        check("system:kube-scheduler", &[], "GET", pods, "workload-high", "kube-scheduler/a");
    }

    #[test]
    fn without_stored_objects_the_catch_all_schema_matches() {
        let info = RequestInfo::parse(&Method::GET, "/api/v1/pods", "");
        let found = Classifier::compile(&[]).classify(&User::new("bob", &[]), &info);
        assert_eq!((found.level.as_str(), found.is_exempt), ("catch-all", false));
        let admin = Classifier::compile(&[]).classify(&User::new("a", &["system:masters"]), &info);
        assert!(admin.is_exempt);
    }
}
