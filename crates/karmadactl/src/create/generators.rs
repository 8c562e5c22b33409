//! The subcommands of `create`: their flags, and the objects they make.

use std::ffi::OsString;
use std::time::Duration;

use anyhow::bail;
use clap::{Args, Subcommand};
use object::Object;
use serde_json::json;

use crate::console::Console;
use crate::create::data::{ConfigMapArgs, DockerRegistryArgs, GenericSecretArgs, TlsSecretArgs};
use crate::create::network::{IngressArgs, ServiceCommand};
use crate::create::rights::{BindingArgs, ClusterBindingArgs, ClusterRoleArgs, RoleArgs};
use crate::create::workloads::{CronJobArgs, DeploymentArgs, JobArgs};
use crate::create::{CreateOptions, workloads};
use crate::durations;

/// A kind that is created from arguments.
#[derive(Subcommand, Debug)]
pub enum Generator {
    /// Create a namespace with the specified name
    #[command(visible_alias = "ns")]
    Namespace(NamedArgs),
    /// Create a config map from files, directories or literal values
    #[command(visible_alias = "cm")]
    Configmap(ConfigMapArgs),
    /// Create a secret
    #[command(subcommand)]
    Secret(SecretCommand),
    /// Create a deployment with the specified name
    #[command(visible_alias = "deploy")]
    Deployment(DeploymentArgs),
    /// Create a job with the specified name
    Job(JobArgs),
    /// Create a cron job with the specified name
    #[command(visible_alias = "cj")]
    Cronjob(CronJobArgs),
    /// Create a service
    #[command(subcommand, visible_alias = "svc")]
    Service(ServiceCommand),
    /// Create an ingress with the specified name
    #[command(visible_alias = "ing")]
    Ingress(IngressArgs),
    /// Create a service account with the specified name
    #[command(visible_alias = "sa")]
    Serviceaccount(NamedArgs),
    /// Request a service account token
    Token(TokenArgs),
    /// Create a role with a single rule
    Role(RoleArgs),
    /// Create a cluster role
    Clusterrole(ClusterRoleArgs),
    /// Create a role binding for a role or cluster role
    Rolebinding(BindingArgs),
    /// Create a cluster role binding for a cluster role
    Clusterrolebinding(ClusterBindingArgs),
    /// Create a quota with the specified name
    #[command(visible_alias = "resourcequota")]
    Quota(QuotaArgs),
    /// Create a pod disruption budget with the specified name
    #[command(visible_alias = "pdb")]
    Poddisruptionbudget(BudgetArgs),
    /// Create a priority class with the specified name
    #[command(visible_alias = "pc")]
    Priorityclass(PriorityClassArgs),
    /// Anything else is created from a manifest
    #[command(external_subcommand)]
    Other(Vec<OsString>),
}

/// The kinds of secrets.
#[derive(Subcommand, Debug)]
pub enum SecretCommand {
    /// Create a secret from files, directories or literal values
    Generic(GenericSecretArgs),
    /// Create a TLS secret
    Tls(TlsSecretArgs),
    /// Create a secret for use with a Docker registry
    DockerRegistry(DockerRegistryArgs),
}

/// Only a name.
#[derive(Args, Debug)]
pub struct NamedArgs {
    /// Name of the object
    pub name: String,
    #[command(flatten)]
    pub common: CreateOptions,
}

#[derive(Args, Debug)]
pub struct TokenArgs {
    /// Name of the service account
    name: String,
    #[command(flatten)]
    common: CreateOptions,
    /// Audience of the token [default: the API server]
    #[arg(long, value_name = "AUDIENCE")]
    audience: Vec<String>,
    /// Requested lifetime of the token
    #[arg(long, value_name = "DURATION", value_parser = durations::parse)]
    duration: Option<Duration>,
}

#[derive(Args, Debug)]
pub struct QuotaArgs {
    /// Name of the quota
    name: String,
    #[command(flatten)]
    common: CreateOptions,
    /// Limits, such as cpu=1,memory=1G,pods=2
    #[arg(long, value_delimiter = ',', value_name = "RESOURCE=QUANTITY")]
    hard: Vec<String>,
    /// Scopes that must all match an object
    #[arg(long, value_delimiter = ',', value_name = "SCOPE")]
    scopes: Vec<String>,
}

#[derive(Args, Debug)]
pub struct BudgetArgs {
    /// Name of the budget
    name: String,
    #[command(flatten)]
    common: CreateOptions,
    /// Labels of the pods, such as app=web
    #[arg(long, value_delimiter = ',', value_name = "KEY=VALUE", required = true)]
    selector: Vec<String>,
    /// Number or percentage of pods that must be available
    #[arg(long, value_name = "COUNT", conflicts_with = "max_unavailable", required_unless_present = "max_unavailable")]
    min_available: Option<String>,
    /// Number or percentage of pods that may be unavailable
    #[arg(long, value_name = "COUNT")]
    max_unavailable: Option<String>,
}

#[derive(Args, Debug)]
pub struct PriorityClassArgs {
    /// Name of the class
    name: String,
    #[command(flatten)]
    common: CreateOptions,
    /// Priority of pods of this class
    #[arg(long, default_value_t = 0, value_name = "N", allow_hyphen_values = true)]
    value: i32,
    /// Use this class for pods without one
    #[arg(long)]
    global_default: bool,
    /// Purpose of this class
    #[arg(long, default_value = "", value_name = "TEXT")]
    description: String,
    /// PreemptLowerPriority or Never
    #[arg(long, default_value = "PreemptLowerPriority", value_name = "POLICY")]
    preemption_policy: String,
}

/// The request of a subcommand.
pub enum Generated {
    Object(Box<Object>),
    /// A job with the template of a cron job, which has to be read.
    JobFrom {
        cron_job: String,
        name: String,
    },
    Token {
        account: String,
        audiences: Vec<String>,
        seconds: Option<u64>,
    },
}

impl Generator {
    /// Returns what to create, and the options of the subcommand.
    pub fn generate(self, console: &Console) -> anyhow::Result<(Generated, CreateOptions)> {
        let object = |object: Object, options: CreateOptions| Ok((Generated::Object(Box::new(object)), options));
        match self {
            Self::Namespace(args) => object(namespace(&args.name), args.common),
            Self::Serviceaccount(args) => object(make("v1", "ServiceAccount", &args.name), args.common),
            Self::Configmap(args) => object(args.object()?, args.common),
            Self::Secret(SecretCommand::Generic(args)) => object(args.object()?, args.common),
            Self::Secret(SecretCommand::Tls(args)) => object(args.object()?, args.common),
            Self::Secret(SecretCommand::DockerRegistry(args)) => object(args.object()?, args.common),
            Self::Deployment(args) => object(args.object()?, args.common),
            Self::Job(args) => workloads::job(args),
            Self::Cronjob(args) => object(args.object(), args.common),
            Self::Service(command) => {
                let (made, options) = command.object()?;
                object(made, options)
            }
            Self::Ingress(args) => object(args.object()?, args.common),
            Self::Token(args) => {
                let seconds = args.duration.map(|duration| duration.as_secs());
                Ok((Generated::Token { account: args.name, audiences: args.audience, seconds }, args.common))
            }
            Self::Role(args) => object(args.object()?, args.common),
            Self::Clusterrole(args) => object(args.object()?, args.common),
            Self::Rolebinding(args) => object(args.object()?, args.common),
            Self::Clusterrolebinding(args) => object(args.object()?, args.common),
            Self::Quota(args) => object(args.object()?, args.common),
            Self::Poddisruptionbudget(args) => object(args.object()?, args.common),
            Self::Priorityclass(args) => object(args.object(), args.common),
            Self::Other(words) => {
                let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
                let program = &console.program;
                bail!(
                    "`create {}` is not supported; use `{program} create -f FILE`, or `kubectl create {} --dry-run=client -o \
                     yaml | {program} create -f -`",
                    words.first().map_or("", String::as_str),
                    words.join(" ")
                )
            }
        }
    }
}

/// Returns an object with a name.
pub fn make(api_version: &str, kind: &str, name: &str) -> Object {
    let value = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
    Object::from_value(value).unwrap_or_default()
}

fn namespace(name: &str) -> Object {
    let mut namespace = make("v1", "Namespace", name);
    namespace.set(&["spec"], json!({}));
    namespace.set(&["status"], json!({}));
    namespace
}

/// Returns true if objects of this kind have no namespace.
pub fn is_cluster_scoped(object: &Object) -> bool {
    ["Namespace", "ClusterRole", "ClusterRoleBinding", "PriorityClass"].contains(&object.kind())
}

/// Reads `KEY=VALUE`.
pub fn pair<'a>(text: &'a str, flag: &str) -> anyhow::Result<(&'a str, &'a str)> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key, value)),
        _ => bail!("--{flag}: {text:?} is not KEY=VALUE"),
    }
}

impl QuotaArgs {
    fn object(&self) -> anyhow::Result<Object> {
        let mut quota = make("v1", "ResourceQuota", &self.name);
        for text in &self.hard {
            let (resource, quantity) = pair(text, "hard")?;
            quota.set(&["spec", "hard", resource], quantity);
        }
        if !self.scopes.is_empty() {
            quota.set(&["spec", "scopes"], json!(self.scopes));
        }
        Ok(quota)
    }
}

impl BudgetArgs {
    fn object(&self) -> anyhow::Result<Object> {
        let mut budget = make("policy/v1", "PodDisruptionBudget", &self.name);
        for text in &self.selector {
            let (key, value) = pair(text, "selector")?;
            budget.set(&["spec", "selector", "matchLabels", key], value);
        }
        let count = |text: &String| text.parse::<i64>().map_or_else(|_| json!(text), |number| json!(number));
        for (field, value) in [("minAvailable", &self.min_available), ("maxUnavailable", &self.max_unavailable)] {
            if let Some(value) = value {
                budget.set(&["spec", field], count(value));
            }
        }
        Ok(budget)
    }
}

impl PriorityClassArgs {
    fn object(&self) -> Object {
        let mut class = make("scheduling.k8s.io/v1", "PriorityClass", &self.name);
        class.set(&["value"], self.value);
        if self.global_default {
            class.set(&["globalDefault"], true);
        }
        if !self.description.is_empty() {
            class.set(&["description"], self.description.as_str());
        }
        class.set(&["preemptionPolicy"], self.preemption_policy.as_str());
        class
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::Value;

    use super::*;
    use crate::console::testing;

    #[derive(Parser)]
    struct Line {
        #[command(subcommand)]
        generator: Generator,
    }

    fn generate(line: &str) -> anyhow::Result<Value> {
        let (console, ..) = testing::console();
        let line = Line::try_parse_from(["create"].into_iter().chain(line.split_whitespace()))?;
        match line.generator.generate(&console)? {
            (Generated::Object(object), _) => Ok(object.into_value()),
            (Generated::JobFrom { cron_job, name }, _) => Ok(json!([cron_job, name])),
            (Generated::Token { account, seconds, .. }, _) => Ok(json!([account, seconds])),
        }
    }

    /// Checks some fields of the object that a command line makes.
    #[track_caller]
    fn check(line: &str, expected: &[(&str, Value)]) {
        let value = generate(line).unwrap_or_else(|error| panic!("{line}: {error:#}"));
        for (pointer, wanted) in expected {
            assert_eq!(value.pointer(pointer), Some(wanted), "{line} {pointer}: {value}");
        }
    }

    #[test]
    fn arguments_become_objects() {
        check("ns shop", &[("/kind", json!("Namespace")), ("/metadata", json!({"name": "shop"}))]);
        check("cm a --from-literal=x=1 --from-literal=y=b=c", &[("/data", json!({"x": "1", "y": "b=c"}))]);
        check("secret generic a --from-literal=x=1", &[("/data", json!({"x": "MQ=="}))]);
        check(
            "deploy web --image=a.io/nginx:1 --replicas=2 --port=80",
            &[
                ("/spec/replicas", json!(2)),
                ("/spec/selector/matchLabels", json!({"app": "web"})),
                ("/spec/template/spec/containers/0/name", json!("nginx")),
                ("/spec/template/spec/containers/0/ports", json!([{"containerPort": 80}])),
            ],
        );
        check(
            "job a --image=busybox -- date -u",
            &[("/spec/template/spec/containers/0/command", json!(["date", "-u"]))],
        );
        check("job a --from=cronjob/b", &[("", json!(["b", "a"]))]);
        check("token robot --duration=1h", &[("", json!(["robot", 3600]))]);
        check("quota q --hard=cpu=1,pods=2", &[("/spec/hard", json!({"cpu": "1", "pods": "2"}))]);
        check("pdb b --selector=app=web --min-available=50%", &[("/spec/minAvailable", json!("50%"))]);
        check("pdb b --selector=app=web --max-unavailable=1", &[("/spec/maxUnavailable", json!(1))]);
        check("pc high --value=1000", &[("/value", json!(1000)), ("/preemptionPolicy", json!("PreemptLowerPriority"))]);
    }

    #[test]
    fn services_and_ingresses_have_their_ports() {
        check(
            "svc clusterip web --tcp=80:8080",
            &[
                ("/spec/ports", json!([{"name": "80-8080", "port": 80, "protocol": "TCP", "targetPort": 8080}])),
                ("/spec/selector", json!({"app": "web"})),
                ("/spec/type", json!("ClusterIP")),
            ],
        );
        check("svc clusterip web --clusterip=None", &[("/spec/clusterIP", json!("None"))]);
        check("svc nodeport web --tcp=80 --node-port=30080", &[("/spec/ports/0/nodePort", json!(30080))]);
        check("svc externalname web --external-name=a.io", &[("/spec/externalName", json!("a.io"))]);
        let backend = |port: Value| json!({"service": {"name": "web", "port": port}});
        check(
            "ing web --rule=a.io/x*=web:80,tls=cert --class=nginx",
            &[
                ("/spec/ingressClassName", json!("nginx")),
                ("/spec/rules/0/host", json!("a.io")),
                ("/spec/rules/0/http/paths/0/path", json!("/x")),
                ("/spec/rules/0/http/paths/0/pathType", json!("Prefix")),
                ("/spec/rules/0/http/paths/0/backend", backend(json!({"number": 80}))),
                ("/spec/tls", json!([{"hosts": ["a.io"], "secretName": "cert"}])),
            ],
        );
    }

    #[test]
    fn rights_are_rules_and_subjects() {
        check(
            "role r --verb=get,list --resource=pods,deployments.apps/scale --resource-name=a",
            &[(
                "/rules",
                json!([
                    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"], "resourceNames": ["a"]},
                    {"apiGroups": ["apps"], "resources": ["deployments/scale"], "verbs": ["get", "list"], "resourceNames": ["a"]},
                ]),
            )],
        );
        check(
            "clusterrole r --verb=get --non-resource-url=/metrics",
            &[("/rules", json!([{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]))],
        );
        check(
            "rolebinding b --clusterrole=view --user=u --serviceaccount=ns:robot",
            &[
                ("/roleRef", json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"})),
                ("/subjects/0", json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "u"})),
                ("/subjects/1", json!({"kind": "ServiceAccount", "name": "robot", "namespace": "ns"})),
            ],
        );
    }

    #[test]
    fn errors_name_the_flag() {
        for (line, expected) in [
            ("cm a --from-literal=x", "--from-literal"),
            ("deploy web", "--image"),
            ("svc clusterip web --tcp=x", "--tcp"),
            ("role r --verb=get", "--resource"),
            ("rolebinding b --user=u", "--clusterrole"),
            ("rolebinding b --role=r --serviceaccount=x", "--serviceaccount"),
            ("ing web --rule=x", "--rule"),
            ("gizmo web", "kubectl create gizmo web --dry-run=client"),
        ] {
            let error = format!("{:#}", generate(line).unwrap_err());
            assert!(error.contains(expected), "{line}: {error}");
        }
    }
}
