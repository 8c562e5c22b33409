//! `create role`, `create clusterrole` and their bindings.

use anyhow::bail;
use clap::Args;
use object::Object;
use serde_json::{Value, json};

use crate::create::CreateOptions;
use crate::create::generators::{make, pair};

const GROUP: &str = "rbac.authorization.k8s.io";
const API_VERSION: &str = "rbac.authorization.k8s.io/v1";

/// The rule of a role.
#[derive(Args, Clone, Debug, Default)]
struct RuleArgs {
    /// Verbs, such as get,list,watch
    #[arg(long, value_delimiter = ',', value_name = "VERB")]
    verb: Vec<String>,
    /// Resources, such as pods, deployments.apps or pods/log
    #[arg(long, value_delimiter = ',', value_name = "RESOURCE")]
    resource: Vec<String>,
    /// Names of objects the rule is limited to
    #[arg(long, value_name = "NAME")]
    resource_name: Vec<String>,
}

#[derive(Args, Debug)]
pub struct RoleArgs {
    /// Name of the role
    name: String,
    #[command(flatten)]
    rule: RuleArgs,
    #[command(flatten)]
    pub common: CreateOptions,
}

#[derive(Args, Debug)]
pub struct ClusterRoleArgs {
    /// Name of the cluster role
    name: String,
    #[command(flatten)]
    rule: RuleArgs,
    /// Paths without resources, such as /metrics
    #[arg(long, value_delimiter = ',', value_name = "PATH")]
    non_resource_url: Vec<String>,
    /// Labels of cluster roles to combine
    #[arg(long, value_delimiter = ',', value_name = "KEY=VALUE")]
    aggregation_rule: Vec<String>,
    #[command(flatten)]
    pub common: CreateOptions,
}

/// The subjects of a binding.
#[derive(Args, Clone, Debug, Default)]
struct SubjectArgs {
    /// User to bind
    #[arg(long, value_name = "NAME")]
    user: Vec<String>,
    /// Group to bind
    #[arg(long, value_name = "NAME")]
    group: Vec<String>,
    /// Service account to bind
    #[arg(long, value_name = "NAMESPACE:NAME")]
    serviceaccount: Vec<String>,
}

#[derive(Args, Debug)]
pub struct BindingArgs {
    /// Name of the binding
    name: String,
    /// Cluster role to bind
    #[arg(long, value_name = "NAME", conflicts_with = "role", required_unless_present = "role")]
    clusterrole: Option<String>,
    /// Role to bind
    #[arg(long, value_name = "NAME")]
    role: Option<String>,
    #[command(flatten)]
    subjects: SubjectArgs,
    #[command(flatten)]
    pub common: CreateOptions,
}

#[derive(Args, Debug)]
pub struct ClusterBindingArgs {
    /// Name of the binding
    name: String,
    /// Cluster role to bind
    #[arg(long, value_name = "NAME")]
    clusterrole: String,
    #[command(flatten)]
    subjects: SubjectArgs,
    #[command(flatten)]
    pub common: CreateOptions,
}

impl RuleArgs {
    /// Returns a rule for each API group, in the order of the resources.
    fn rules(&self) -> anyhow::Result<Vec<Value>> {
        if self.verb.is_empty() {
            bail!("at least one verb must be specified: --verb VERB");
        }
        if self.resource.is_empty() {
            bail!("at least one resource must be specified: --resource RESOURCE");
        }
        let mut groups: Vec<(String, Vec<String>)> = Vec::new();
        for text in &self.resource {
            let (resource, subresource) = match text.split_once('/') {
                Some((resource, sub)) => (resource, format!("/{sub}")),
                None => (text.as_str(), String::new()),
            };
            let (name, group) = resource.split_once('.').unwrap_or((resource, ""));
            let name = format!("{name}{subresource}");
            match groups.iter_mut().find(|(other, _)| other == group) {
                Some((_, names)) => names.push(name),
                None => groups.push((group.to_owned(), vec![name])),
            }
        }
        let rule = |(group, resources): (String, Vec<String>)| {
            let mut rule = json!({"apiGroups": [group], "resources": resources, "verbs": self.verb});
            if !self.resource_name.is_empty() {
                rule["resourceNames"] = json!(self.resource_name);
            }
            rule
        };
        Ok(groups.into_iter().map(rule).collect())
    }
}

impl RoleArgs {
    pub fn object(&self) -> anyhow::Result<Object> {
        let mut role = make(API_VERSION, "Role", &self.name);
        role.set(&["rules"], self.rule.rules()?);
        Ok(role)
    }
}

impl ClusterRoleArgs {
    pub fn object(&self) -> anyhow::Result<Object> {
        let mut role = make(API_VERSION, "ClusterRole", &self.name);
        if !self.aggregation_rule.is_empty() {
            let mut labels = json!({});
            for text in &self.aggregation_rule {
                let (key, value) = pair(text, "aggregation-rule")?;
                labels[key] = value.into();
            }
            role.set(&["aggregationRule", "clusterRoleSelectors"], json!([{"matchLabels": labels}]));
            role.set(&["rules"], json!([]));
            return Ok(role);
        }
        let mut rules = match (&self.rule.resource[..], &self.non_resource_url[..]) {
            ([], [_, ..]) if !self.rule.verb.is_empty() => Vec::new(),
            _ => self.rule.rules()?,
        };
        if !self.non_resource_url.is_empty() {
            rules.push(json!({"nonResourceURLs": self.non_resource_url, "verbs": self.rule.verb}));
        }
        role.set(&["rules"], rules);
        Ok(role)
    }
}

impl SubjectArgs {
    fn subjects(&self) -> anyhow::Result<Vec<Value>> {
        let of = |kind: &'static str, names: &[String]| -> Vec<Value> {
            names.iter().map(|name| json!({"apiGroup": GROUP, "kind": kind, "name": name})).collect()
        };
        let mut subjects = [of("User", &self.user), of("Group", &self.group)].concat();
        for text in &self.serviceaccount {
            let Some((namespace, name)) = text.split_once(':').filter(|(a, b)| !a.is_empty() && !b.is_empty()) else {
                bail!("--serviceaccount: {text:?} is not NAMESPACE:NAME");
            };
            subjects.push(json!({"kind": "ServiceAccount", "name": name, "namespace": namespace}));
        }
        Ok(subjects)
    }
}

fn binding(kind: &str, name: &str, role: (&str, &str), subjects: &SubjectArgs) -> anyhow::Result<Object> {
    let mut binding = make(API_VERSION, kind, name);
    binding.set(&["roleRef"], json!({"apiGroup": GROUP, "kind": role.0, "name": role.1}));
    let subjects = subjects.subjects()?;
    if !subjects.is_empty() {
        binding.set(&["subjects"], subjects);
    }
    Ok(binding)
}

impl BindingArgs {
    pub fn object(&self) -> anyhow::Result<Object> {
        let role = match (&self.clusterrole, &self.role) {
            (Some(name), _) => ("ClusterRole", name.as_str()),
            (None, Some(name)) => ("Role", name.as_str()),
            (None, None) => bail!("exactly one of --clusterrole or --role must be specified"),
        };
        binding("RoleBinding", &self.name, role, &self.subjects)
    }
}

impl ClusterBindingArgs {
    pub fn object(&self) -> anyhow::Result<Object> {
        binding("ClusterRoleBinding", &self.name, ("ClusterRole", &self.clusterrole), &self.subjects)
    }
}
