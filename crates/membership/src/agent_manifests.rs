//! The objects of an agent in its cluster: namespace, kubeconfig secret, permissions, and Deployment.

use api::Resource;
use api::cluster::LABEL_SYSTEM;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use object::Object;
use serde_json::json;

use crate::ClusterLocation;
use crate::credentials::{CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, NAMESPACES, SECRETS, SERVICE_ACCOUNTS};

pub const AGENT: &str = "karmada-agent";
pub const AGENT_ACCOUNT: &str = "karmada-agent-sa";
/// Name of the secret, and of the key in it.
pub const KUBECONFIG_SECRET: &str = "karmada-kubeconfig";
pub const DEPLOYMENTS: Resource = Resource::namespaced("apps", "v1", "Deployment", "deployments");
/// Name of the image without a registry, as `make image` gives it.
pub const LOCAL_IMAGE: &str = concat!("flotilla:v", env!("CARGO_PKG_VERSION"));
/// The image that nodes pull. Builds of a release name the one they publish (`make release`).
pub const IMAGE: &str = match option_env!("FLOTILLA_RELEASE_IMAGE") {
    Some(published) => published,
    None => LOCAL_IMAGE,
};

const RESOURCES: [Resource; 6] =
    [NAMESPACES, SECRETS, SERVICE_ACCOUNTS, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, DEPLOYMENTS];

/// An agent to install in its cluster.
#[derive(Clone, Debug)]
pub struct AgentInstallation {
    pub namespace: String,
    pub kubeconfig: KubeconfigSecret,
    pub image: String,
    pub replicas: u32,
    pub arguments: Vec<String>,
}

/// Flags of an agent that describe its cluster.
pub struct AgentFlags<'a> {
    pub cluster_name: &'a str,
    pub cluster_api_endpoint: &'a str,
    pub location: &'a ClusterLocation,
    pub proxy_server_address: &'a str,
    pub cluster_namespace: &'a str,
    pub namespace: &'a str,
}

impl AgentFlags<'_> {
    pub fn arguments(&self) -> Vec<String> {
        let mut arguments = vec![
            format!("--cluster-name={}", self.cluster_name),
            format!("--cluster-api-endpoint={}", self.cluster_api_endpoint),
        ];
        arguments.extend(self.location.flags());
        arguments.extend([
            format!("--proxy-server-address={}", self.proxy_server_address),
            format!("--cluster-namespace={}", self.cluster_namespace),
            format!("--leader-elect-resource-namespace={}", self.namespace),
        ]);
        arguments
    }
}

/// The secret with the agent's kubeconfig for the control plane.
#[derive(Clone, Debug)]
pub enum KubeconfigSecret {
    /// Created with the agent, with this kubeconfig.
    Create(String),
    /// Created by other means, for example from an encrypted file in a repository; this is its name.
    Existing(String),
}

/// Returns the API resource of an object of the agent.
pub fn resource_of(object: &Object) -> Option<Resource> {
    RESOURCES.into_iter().find(|resource| resource.kind == object.kind())
}

impl AgentInstallation {
    /// Returns the objects in the order of their dependencies.
    pub fn objects(&self) -> Vec<Object> {
        let namespace = self.namespace.as_str();
        let secret = match &self.kubeconfig {
            KubeconfigSecret::Existing(_) => None,
            KubeconfigSecret::Create(text) => {
                let mut secret = SECRETS.object(namespace, KUBECONFIG_SECRET);
                secret.set(&["type"], "Opaque");
                secret.set(&["data"], json!({KUBECONFIG_SECRET: STANDARD.encode(text)}));
                Some(secret)
            }
        };
        let mut role = CLUSTER_ROLES.object("", AGENT);
        role.set(
            &["rules"],
            json!([
                {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
                {"nonResourceURLs": ["*"], "verbs": ["get"]},
            ]),
        );
        let account = SERVICE_ACCOUNTS.object(namespace, AGENT_ACCOUNT);
        let mut binding = CLUSTER_ROLE_BINDINGS.object("", AGENT);
        binding.set(&["roleRef"], json!({"apiGroup": CLUSTER_ROLES.group, "kind": CLUSTER_ROLES.kind, "name": AGENT}));
        binding.set(&["subjects"], json!([{"kind": "ServiceAccount", "name": AGENT_ACCOUNT, "namespace": namespace}]));
        let mut objects = vec![NAMESPACES.object("", namespace)];
        objects.extend(secret);
        objects.extend([role, account, binding, self.deployment()]);
        for object in &mut objects {
            object.set_label(LABEL_SYSTEM, "true");
        }
        objects
    }

    fn deployment(&self) -> Object {
        let mut deployment = DEPLOYMENTS.object(&self.namespace, AGENT);
        deployment.set_label("app", AGENT);
        let mut arguments = vec!["--karmada-kubeconfig=/etc/kubeconfig/karmada-kubeconfig".to_owned()];
        let secret = match &self.kubeconfig {
            KubeconfigSecret::Create(_) => KUBECONFIG_SECRET,
            KubeconfigSecret::Existing(name) => name,
        };
        if secret != KUBECONFIG_SECRET {
            arguments.push(format!("--karmada-kubeconfig-secret={secret}"));
        }
        arguments.extend(self.arguments.iter().filter(|argument| !argument.ends_with('=')).cloned());
        arguments.push("--health-probe-bind-address=0.0.0.0:10357".to_owned());
        if self.replicas > 1 {
            arguments.push("--leader-elect=true".to_owned());
        }
        deployment.set(
            &["spec"],
            json!({
                "replicas": self.replicas,
                "selector": {"matchLabels": {"app": AGENT}},
                "template": {
                    "metadata": {"labels": {"app": AGENT}},
                    "spec": {
                        "serviceAccountName": AGENT_ACCOUNT,
                        "tolerations": [
                            {"key": "node-role.kubernetes.io/master", "operator": "Exists"},
                            {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"},
                        ],
                        "volumes": [{"name": "kubeconfig", "secret": {"secretName": secret}}],
                        "containers": [{
                            "name": AGENT,
                            "image": self.image,
                            "command": ["flotilla", "agent"],
                            "args": arguments,
                            "livenessProbe": {"httpGet": {"path": "/healthz", "port": 10357}, "periodSeconds": 15},
                            "volumeMounts": [{"name": "kubeconfig", "mountPath": "/etc/kubeconfig", "readOnly": true}],
                        }],
                    },
                },
            }),
        );
        deployment
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_object_has_a_resource_and_empty_flags_are_left_out() {
        let arguments = vec!["--cluster-name=m1".to_owned(), "--cluster-region=".to_owned()];
        let installation = AgentInstallation {
            namespace: "karmada-system".into(),
            kubeconfig: KubeconfigSecret::Create("text".into()),
            image: "registry.example/flotilla:1".into(),
            replicas: 2,
            arguments,
        };
        let objects = installation.objects();
        let kinds: Vec<&str> = objects.iter().map(Object::kind).collect();
        assert_eq!(kinds, ["Namespace", "Secret", "ClusterRole", "ServiceAccount", "ClusterRoleBinding", "Deployment"]);
        assert!(objects.iter().all(|object| resource_of(object).is_some()));
        let container = &objects[5].items(&["spec", "template", "spec", "containers"])[0];
        let arguments: Vec<&str> =
            container["args"].as_array().expect("args").iter().filter_map(|a| a.as_str()).collect();
        assert!(arguments.contains(&"--cluster-name=m1") && arguments.contains(&"--leader-elect=true"));
        assert!(!arguments.iter().any(|argument| argument.starts_with("--cluster-region")), "{arguments:?}");
        let referring = AgentInstallation { kubeconfig: KubeconfigSecret::Existing("sealed".into()), ..installation };
        let objects = referring.objects();
        assert!(objects.iter().all(|object| object.kind() != "Secret"), "an existing secret is not created again");
        let volume = &objects[4].items(&["spec", "template", "spec", "volumes"])[0];
        assert_eq!(volume["secret"]["secretName"], "sealed");
    }
}
