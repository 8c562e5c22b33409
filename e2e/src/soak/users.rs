//! User actions on templates, policies, overrides and members, each retried until it succeeds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::actions::Actor;
use super::api::ApiAnswer;
use super::schedule::{POLICIES, UserAction};
use super::system::SoakSystem;

pub const NAMESPACE: &str = "soak";
const DEED_TIMEOUT: Duration = Duration::from_secs(150);

/// The state last requested by users.
#[derive(Clone, Debug, Default)]
pub struct RequestedState {
    /// By policy: the member with an override annotation, and its value.
    pub overrides: BTreeMap<u64, (String, String)>,
    pub joined: BTreeSet<String>,
}

pub struct Users {
    pub system: Arc<SoakSystem>,
    pub requested: Arc<Mutex<RequestedState>>,
    /// Makes every write different.
    pub written: u64,
    attempt: usize,
    /// Why the current action was retried.
    obstacle: String,
}

impl Users {
    pub fn new(system: Arc<SoakSystem>) -> Self {
        Self { system, requested: Arc::default(), written: 0, attempt: 0, obstacle: String::new() }
    }

    /// Creates the namespace and the policies, and joins all members.
    pub async fn settle_in(&mut self) -> Result<(), String> {
        self.put(
            "/api/v1/namespaces",
            NAMESPACE,
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        )
        .await?;
        for policy in 0..POLICIES {
            self.place(policy, policy).await?;
        }
        for number in 0..self.system.members.len() {
            if !self.system.members[number].is_pull {
                self.join(number).await?;
            }
        }
        let names = self.system.members.iter().map(|site| site.name.clone());
        self.requested.lock().unwrap_or_else(PoisonError::into_inner).joined = names.collect();
        Ok(())
    }

    async fn write(&mut self, template: u64, replicas: u64) -> Result<(), String> {
        self.written += 1;
        let (name, value) = (template_name(template), format!("v{}", self.written));
        let metadata = json!({"name": name, "namespace": NAMESPACE,
            "labels": {"soak-policy": format!("p{}", template % POLICIES)}, "annotations": {"soak/value": value}});
        let object = if is_map(template) {
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"value": value}})
        } else {
            let labels = json!({"app": name});
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {
                "replicas": replicas, "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": format!("nginx:{value}")}]}}}})
        };
        self.put(&template_path(template), &name, object).await
    }

    async fn place(&mut self, policy: u64, placement: u64) -> Result<(), String> {
        let selector = json!({"matchLabels": {"soak-policy": format!("p{policy}")}});
        let of_kind =
            |version: &str, kind: &str| json!({"apiVersion": version, "kind": kind, "labelSelector": selector});
        let object = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
            "metadata": {"name": format!("p{policy}"), "namespace": NAMESPACE},
            "spec": {"resourceSelectors": [of_kind("apps/v1", "Deployment"), of_kind("v1", "ConfigMap")],
                     "placement": placement_of(placement)}});
        self.put(&policies_path("propagationpolicies"), &format!("p{policy}"), object).await
    }

    async fn override_for(&mut self, policy: u64, member: String) -> Result<(), String> {
        self.written += 1;
        let value = format!("o{}", self.written);
        let selector = json!({"matchLabels": {"soak-policy": format!("p{policy}")}});
        let of_kind =
            |version: &str, kind: &str| json!({"apiVersion": version, "kind": kind, "labelSelector": selector});
        let overrider = json!({"path": "/metadata/annotations/soak~1override", "operator": "add", "value": value});
        let object = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
            "metadata": {"name": format!("o{policy}"), "namespace": NAMESPACE},
            "spec": {"resourceSelectors": [of_kind("apps/v1", "Deployment"), of_kind("v1", "ConfigMap")],
                     "overrideRules": [{"targetCluster": {"clusterNames": [member]}, "overriders": {"plaintext": [overrider]}}]}});
        self.put(&policies_path("overridepolicies"), &format!("o{policy}"), object).await?;
        self.requested.lock().unwrap_or_else(PoisonError::into_inner).overrides.insert(policy, (member, value));
        Ok(())
    }

    async fn taint(&mut self, member: &str, taint: &str) -> Result<(), String> {
        match self.command(&["taint", "clusters", member, taint]).await {
            // Already in the requested state.
            Err(why) if why.contains("not found") || why.contains("already") => Ok(()),
            other => other,
        }
    }

    async fn join(&mut self, number: usize) -> Result<(), String> {
        let site = self.system.members[number].clone();
        let kubeconfig = site.kubeconfig.display().to_string();
        match self.command(&["join", &site.name, "--cluster-kubeconfig", &kubeconfig]).await {
            // An earlier attempt without a response.
            Err(why) if why.contains("already") || why.contains("exist") => {}
            other => other?,
        }
        self.requested.lock().unwrap_or_else(PoisonError::into_inner).joined.insert(site.name);
        Ok(())
    }

    async fn unjoin(&mut self, number: usize) -> Result<(), String> {
        let site = self.system.members[number].clone();
        let kubeconfig = site.kubeconfig.display().to_string();
        match self.command(&["unjoin", &site.name, "--cluster-kubeconfig", &kubeconfig, "--wait=50s"]).await {
            Err(why) if why.contains("not found") || why.contains("no cluster") => {}
            other => other?,
        }
        self.requested.lock().unwrap_or_else(PoisonError::into_inner).joined.remove(&site.name);
        Ok(())
    }

    async fn command(&mut self, arguments: &[&str]) -> Result<(), String> {
        let arguments: Vec<String> = arguments.iter().map(|&text| text.to_owned()).collect();
        let start = Instant::now();
        loop {
            self.attempt += 1;
            match self.system.flotilla(self.attempt, &arguments).await {
                Ok(()) => return Ok(()),
                Err(why) if is_final(&why) || start.elapsed() > DEED_TIMEOUT => {
                    return Err(format!("flotilla {}: {why}", arguments.join(" ")));
                }
                Err(why) => {
                    self.obstacle = why;
                    tokio::time::sleep(Duration::from_millis(500)).await;
                }
            }
        }
    }

    /// Creates the object, or updates it to this state.
    async fn put(&mut self, path: &str, name: &str, object: Value) -> Result<(), String> {
        let start = Instant::now();
        loop {
            self.attempt += 1;
            let api = self.system.replicas[self.attempt % self.system.replicas.len()].clone();
            let answer = match api.merge(&format!("{path}/{name}"), &object).await {
                ApiAnswer::Unsupported(404, _) => api.create(path, &object).await,
                other => other,
            };
            match answer {
                ApiAnswer::Done(_) => return Ok(()),
                other if start.elapsed() > DEED_TIMEOUT => return Err(format!("{path}/{name}: {other:?}")),
                ApiAnswer::Unsupported(code @ (400 | 422), why) => return Err(format!("{path}/{name}: {code} {why}")),
                other => {
                    self.obstacle = format!("{other:?}");
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            }
        }
    }

    async fn delete(&mut self, path: &str, name: &str) -> Result<(), String> {
        let start = Instant::now();
        loop {
            self.attempt += 1;
            let api = self.system.replicas[self.attempt % self.system.replicas.len()].clone();
            match api.delete(&format!("{path}/{name}"), &json!({})).await {
                ApiAnswer::Done(_) | ApiAnswer::Unsupported(404, _) => return Ok(()),
                other if start.elapsed() > DEED_TIMEOUT => return Err(format!("{path}/{name}: {other:?}")),
                other => {
                    self.obstacle = format!("{other:?}");
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            }
        }
    }
}

impl Actor for Users {
    async fn act(&mut self, action: &UserAction) -> Result<(), String> {
        self.obstacle = "none".to_owned();
        let member = |cluster: u64| self.system.members[usize::try_from(cluster).unwrap_or(0)].name.clone();
        match action {
            UserAction::Write { template, replicas } => self.write(*template, *replicas).await,
            UserAction::Delete { template } => self.delete(&template_path(*template), &template_name(*template)).await,
            UserAction::Place { policy, placement } => self.place(*policy, *placement).await,
            UserAction::Override { policy, cluster } => self.override_for(*policy, member(*cluster)).await,
            UserAction::DropOverride { policy } => {
                self.delete(&policies_path("overridepolicies"), &format!("o{policy}")).await?;
                self.requested.lock().unwrap_or_else(PoisonError::into_inner).overrides.remove(policy);
                Ok(())
            }
            UserAction::Cordon { cluster } => self.command(&["cordon", &member(*cluster)]).await,
            UserAction::Uncordon { cluster } => self.command(&["uncordon", &member(*cluster)]).await,
            UserAction::Taint { cluster } => self.taint(&member(*cluster), "soak=yes:NoExecute").await,
            UserAction::Untaint { cluster } => self.taint(&member(*cluster), "soak:NoExecute-").await,
            UserAction::Unjoin { cluster } => self.unjoin(usize::try_from(*cluster).unwrap_or(0)).await,
            UserAction::Join { cluster } => self.join(usize::try_from(*cluster).unwrap_or(0)).await,
        }
    }

    fn obstacle(&self) -> &str {
        &self.obstacle
    }
}

/// Reports whether a retry is pointless.
fn is_final(why: &str) -> bool {
    ["not found", "already", "exist"].iter().any(|word| why.contains(word))
}

fn placement_of(number: u64) -> Value {
    let weight = |name: &str, weight: u64| json!({"targetCluster": {"clusterNames": [name]}, "weight": weight});
    let divided = |preference: Value| json!({"replicaScheduling": preference});
    match number {
        0 => json!({"replicaScheduling": {"replicaSchedulingType": "Duplicated"}}),
        1 => json!({"clusterAffinity": {"clusterNames": ["member-0", "member-2"]}}),
        2 => divided(json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
            "weightPreference": {"staticWeightList": [weight("member-0", 1), weight("member-1", 2), weight("member-2", 1)]}})),
        3 => divided(json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"})),
        _ => json!({"clusterAffinity": {"clusterNames": ["member-1"]}}),
    }
}

/// Every third template is a ConfigMap, the others are Deployments.
fn is_map(template: u64) -> bool {
    template.is_multiple_of(3)
}

fn template_name(template: u64) -> String {
    format!("t{template}")
}

fn template_path(template: u64) -> String {
    match is_map(template) {
        true => format!("/api/v1/namespaces/{NAMESPACE}/configmaps"),
        false => format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments"),
    }
}

fn policies_path(plural: &str) -> String {
    format!("/apis/policy.karmada.io/v1alpha1/namespaces/{NAMESPACE}/{plural}")
}
