//! The objects of a control plane in its host cluster, equal to those of the chart `flotilla`; a test compares them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use api::Resource;
use object::Object;
use serde_json::{Map, Value, json};

use crate::agent_manifests::DEPLOYMENTS;
use crate::credentials::{NAMESPACES, SECRETS, SERVICE_ACCOUNTS};

/// Karmada's label on everything that was installed; its value says what the object is for.
pub const LABEL_BOOTSTRAPPING: &str = "karmada.io/bootstrapping";
/// Name of the Service and of the workload.
pub const PLANE: &str = "karmada-apiserver";
/// The Secret with the administrator's kubeconfig.
pub const ADMIN_SECRET: &str = "karmada-kubeconfig";
/// Key of the kubeconfig in that Secret.
pub const ADMIN_SECRET_KEY: &str = "kubeconfig";
/// The Secret with the EncryptionConfiguration. It has not the label of what `deinit` removes: without it, what is stored in etcd is lost.
pub const ENCRYPTION_SECRET: &str = "karmada-apiserver-encryption";
/// Key of the EncryptionConfiguration in that Secret.
pub const ENCRYPTION_SECRET_KEY: &str = "encryption.yaml";
/// Port of the Service and of the pods.
pub const PLANE_PORT: u16 = 5443;

pub const STATEFUL_SETS: Resource = Resource::namespaced("apps", "v1", "StatefulSet", "statefulsets");
pub const SERVICES: Resource = Resource::namespaced("", "v1", "Service", "services");
const ROLES: Resource = Resource::namespaced("rbac.authorization.k8s.io", "v1", "Role", "roles");
const ROLE_BINDINGS: Resource = Resource::namespaced("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings");
const BUDGETS: Resource = Resource::namespaced("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets");

/// Everything a control plane consists of, in the order of creation. The namespace is not among them.
pub const PLANE_RESOURCES: [Resource; 8] =
    [SECRETS, SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS, SERVICES, BUDGETS, STATEFUL_SETS, DEPLOYMENTS];

/// A control plane to install in a host cluster.
#[derive(Clone, Debug)]
pub struct PlaneInstallation {
    pub namespace: String,
    pub image: String,
    pub image_pull_policy: String,
    pub image_pull_secrets: Vec<String>,
    pub storage: PlaneStorage,
    /// Port on every node; `None` for a Service within the cluster only.
    pub node_port: Option<u16>,
    /// Port of the pod on its node, without the Service.
    pub host_port: Option<HostPort>,
    /// URL in the published kubeconfig; `None` for the name of the Service.
    pub advertise_url: Option<String>,
    /// DNS domain of the host cluster.
    pub domain: String,
    /// Additional names and addresses in the certificate.
    pub tls_names: Vec<String>,
    /// CA to use instead of a new one.
    pub authority: Option<KeyPair>,
    /// EncryptionConfiguration of servers that share an etcd; a server with storage of its own creates one.
    pub encryption: Option<String>,
    pub priority_class: Option<String>,
    pub node_selector: BTreeMap<String, String>,
    /// Additional flags of the server.
    pub arguments: Vec<String>,
}

/// A port of a node that leads to a pod.
#[derive(Clone, Copy, Debug)]
pub struct HostPort {
    pub address: IpAddr,
    pub port: u16,
}

/// A certificate and its key, in PEM.
#[derive(Clone, Debug)]
pub struct KeyPair {
    pub certificate: String,
    pub key: String,
}

/// The storage of the control plane.
#[derive(Clone, Debug)]
pub enum PlaneStorage {
    /// A directory of the node; the server runs as root to be able to write there.
    HostPath(String),
    EmptyDir,
    Claim {
        class: Option<String>,
        size: String,
    },
    Etcd(ExternalEtcd),
}

/// An etcd outside of the installation, which any number of servers can share.
#[derive(Clone, Debug)]
pub struct ExternalEtcd {
    pub servers: Vec<String>,
    pub prefix: String,
    pub tls: Option<EtcdTls>,
    pub replicas: u32,
}

/// Certificates for etcd, in PEM.
#[derive(Clone, Debug)]
pub struct EtcdTls {
    pub authority: String,
    pub client: KeyPair,
}

impl PlaneInstallation {
    /// Returns the objects in the order of their dependencies.
    pub fn objects(&self) -> Vec<Object> {
        let namespace = self.namespace.as_str();
        let mut objects = vec![NAMESPACES.object("", namespace)];
        objects.extend(self.secrets());
        let mut account = SERVICE_ACCOUNTS.object(namespace, PLANE);
        account.set(&["automountServiceAccountToken"], false);
        objects.push(account);
        objects.extend(self.permissions());
        objects.push(self.service());
        if self.replicas() > 1 {
            let mut budget = BUDGETS.object(namespace, PLANE);
            budget.set(&["spec"], json!({"maxUnavailable": 1, "selector": {"matchLabels": selector()}}));
            objects.push(budget);
        }
        objects.push(self.workload());
        // The namespace may hold other things and is not removed with the installation.
        for object in objects.iter_mut().skip(1) {
            let purpose = match object.kind() {
                "Service" => "service-defaults",
                "Secret" => "secret-defaults",
                _ => "app-defaults",
            };
            self.label(object);
            if object.name() != ENCRYPTION_SECRET {
                object.set_label(LABEL_BOOTSTRAPPING, purpose);
            }
        }
        objects
    }

    /// Returns the workload's resource.
    pub fn workload_resource(&self) -> Resource {
        if matches!(self.storage, PlaneStorage::Etcd(_)) { DEPLOYMENTS } else { STATEFUL_SETS }
    }

    pub fn replicas(&self) -> u32 {
        if let PlaneStorage::Etcd(etcd) = &self.storage { etcd.replicas } else { 1 }
    }

    /// Returns the host name of the Service.
    fn host(&self) -> String {
        format!("{PLANE}.{}.svc", self.namespace)
    }

    fn label(&self, object: &mut Object) {
        for (key, value) in labels() {
            object.set_label(&key, value.as_str().unwrap_or_default());
        }
    }

    fn secrets(&self) -> Vec<Object> {
        let secret = |name: &str, data: Value| {
            let mut secret = SECRETS.object(&self.namespace, name);
            secret.set(&["type"], "Opaque");
            secret.set(&["stringData"], data);
            secret
        };
        let authority = self
            .authority
            .as_ref()
            .map(|pair| secret(CERTIFICATES, json!({"ca.crt": pair.certificate, "ca.key": pair.key})));
        let etcd = self.etcd_tls().map(|tls| {
            let (certificate, key) = (&tls.client.certificate, &tls.client.key);
            secret(ETCD_CERTIFICATES, json!({"ca.crt": tls.authority, "tls.crt": certificate, "tls.key": key}))
        });
        let encryption = self.encryption.as_ref().map(|config| {
            let mut secret = secret(ENCRYPTION_SECRET, json!({ENCRYPTION_SECRET_KEY: config}));
            // No mistake replaces the keys of stored values.
            secret.set(&["immutable"], true);
            secret
        });
        authority.into_iter().chain(etcd).chain(encryption).collect()
    }

    fn etcd_tls(&self) -> Option<&EtcdTls> {
        if let PlaneStorage::Etcd(etcd) = &self.storage { etcd.tls.as_ref() } else { None }
    }

    /// The server publishes its kubeconfig in a Secret and has no other permission.
    fn permissions(&self) -> [Object; 2] {
        let name = format!("{PLANE}-kubeconfig");
        let mut role = ROLES.object(&self.namespace, &name);
        role.set(
            &["rules"],
            json!([
                {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
                {"apiGroups": [""], "resources": ["secrets"], "resourceNames": [ADMIN_SECRET], "verbs": ["get", "patch"]},
            ]),
        );
        let mut binding = ROLE_BINDINGS.object(&self.namespace, &name);
        binding.set(&["roleRef"], json!({"apiGroup": ROLES.group, "kind": ROLES.kind, "name": name}));
        binding.set(&["subjects"], json!([{"kind": "ServiceAccount", "name": PLANE, "namespace": self.namespace}]));
        [role, binding]
    }

    fn service(&self) -> Object {
        let mut service = SERVICES.object(&self.namespace, PLANE);
        let mut port = json!({"name": "https", "port": PLANE_PORT, "targetPort": "https"});
        if let Some(number) = self.node_port {
            port["nodePort"] = number.into();
        }
        let kind = if self.node_port.is_some() { "NodePort" } else { "ClusterIP" };
        service.set(&["spec"], json!({"type": kind, "selector": selector(), "ports": [port]}));
        service
    }

    fn workload(&self) -> Object {
        let mut workload = self.workload_resource().object(&self.namespace, PLANE);
        let mut spec = json!({"replicas": self.replicas(), "selector": {"matchLabels": selector()},
            "template": {"metadata": {"labels": labels()}, "spec": self.pod()}});
        if self.workload_resource().kind == STATEFUL_SETS.kind {
            spec["serviceName"] = PLANE.into();
        }
        if let PlaneStorage::Claim { class, size } = &self.storage {
            let mut claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}});
            if let Some(class) = class {
                claim["storageClassName"] = class.as_str().into();
            }
            spec["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}, "spec": claim}]);
        }
        workload.set(&["spec"], spec);
        workload
    }

    fn pod(&self) -> Value {
        let mut pod = json!({
            "serviceAccountName": PLANE,
            "automountServiceAccountToken": true,
            "terminationGracePeriodSeconds": 30,
            "securityContext": self.pod_security(),
            "containers": [self.container()],
            "volumes": self.volumes(),
        });
        if !self.image_pull_secrets.is_empty() {
            let names: Vec<Value> = self.image_pull_secrets.iter().map(|name| json!({"name": name})).collect();
            pod["imagePullSecrets"] = names.into();
        }
        if let Some(class) = &self.priority_class {
            pod["priorityClassName"] = class.as_str().into();
        }
        if !self.node_selector.is_empty() {
            pod["nodeSelector"] = json!(self.node_selector);
        }
        pod
    }

    fn pod_security(&self) -> Value {
        let seccomp = json!({"type": "RuntimeDefault"});
        match self.storage {
            PlaneStorage::HostPath(_) => json!({"runAsUser": 0, "runAsGroup": 0, "seccompProfile": seccomp}),
            _ => json!({"runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532,
                "seccompProfile": seccomp}),
        }
    }

    fn container(&self) -> Value {
        let probe = |path: &str| json!({"path": path, "port": "https", "scheme": "HTTPS"});
        let mut port = json!({"name": "https", "containerPort": PLANE_PORT});
        if let Some(host) = self.host_port {
            port["hostIP"] = host.address.to_string().into();
            port["hostPort"] = host.port.into();
        }
        json!({
            "name": "flotilla",
            "image": self.image,
            "imagePullPolicy": self.image_pull_policy,
            "command": ["flotilla", "server"],
            "args": self.server_arguments(),
            "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
            "ports": [port],
            "startupProbe": {"httpGet": probe("/readyz"), "periodSeconds": 2, "failureThreshold": 60},
            "readinessProbe": {"httpGet": probe("/readyz"), "periodSeconds": 5},
            // A restart does not help if etcd is unavailable.
            "livenessProbe": {"httpGet": probe("/livez?exclude=etcd"), "periodSeconds": 10, "failureThreshold": 6},
            "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}},
            "securityContext": {"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                "capabilities": {"drop": ["ALL"]}},
            "volumeMounts": self.mounts(),
        })
    }

    fn server_arguments(&self) -> Vec<String> {
        let (host, namespace) = (self.host(), &self.namespace);
        let url = self.advertise_url.clone().unwrap_or_else(|| format!("https://{host}:{PLANE_PORT}"));
        let mut arguments = vec![
            format!("--bind=0.0.0.0:{PLANE_PORT}"),
            "--data-dir=/data".to_owned(),
            "--log=info".to_owned(),
            format!("--advertise-url={url}"),
            format!("--tls-san={PLANE}"),
            format!("--tls-san={PLANE}.{namespace}"),
            format!("--tls-san={host}"),
            format!("--tls-san={host}.{}", self.domain),
        ];
        arguments.extend(self.tls_names.iter().map(|name| format!("--tls-san={name}")));
        arguments.push(format!("--kubeconfig-secret={namespace}/{ADMIN_SECRET}"));
        if self.authority.is_some() {
            arguments.push("--import-keys=/keys".to_owned());
        }
        if let PlaneStorage::Etcd(etcd) = &self.storage {
            arguments.extend([
                "--storage=etcd".to_owned(),
                format!("--peer-address=$(POD_IP):{PLANE_PORT}"),
                format!("--etcd-servers={}", etcd.servers.join(",")),
                format!("--etcd-prefix={}", etcd.prefix),
            ]);
            if etcd.tls.is_some() {
                let files =
                    ["--etcd-cafile=/etcd/ca.crt", "--etcd-certfile=/etcd/tls.crt", "--etcd-keyfile=/etcd/tls.key"];
                arguments.extend(files.map(str::to_owned));
            }
        }
        if self.encryption.is_some() {
            arguments.push(format!("--encryption-provider-config=/encryption/{ENCRYPTION_SECRET_KEY}"));
            arguments.push("--encryption-provider-config-automatic-reload=true".to_owned());
        }
        arguments.extend(self.arguments.iter().cloned());
        arguments
    }

    fn mounts(&self) -> Vec<Value> {
        let mut mounts =
            vec![json!({"name": "data", "mountPath": "/data"}), json!({"name": "tmp", "mountPath": "/tmp"})];
        let read_only = |name: &str| json!({"name": name, "mountPath": format!("/{name}"), "readOnly": true});
        mounts.extend(self.etcd_tls().map(|_| read_only("etcd")));
        mounts.extend(self.authority.as_ref().map(|_| read_only("keys")));
        mounts.extend(self.encryption.as_ref().map(|_| read_only("encryption")));
        mounts
    }

    fn volumes(&self) -> Vec<Value> {
        let secret =
            |name: &str, secret: &str| json!({"name": name, "secret": {"secretName": secret, "defaultMode": 0o440}});
        let mut volumes = vec![json!({"name": "tmp", "emptyDir": {}})];
        match &self.storage {
            PlaneStorage::HostPath(path) => {
                volumes.push(json!({"name": "data", "hostPath": {"path": path, "type": "DirectoryOrCreate"}}));
            }
            PlaneStorage::EmptyDir | PlaneStorage::Etcd(_) => volumes.push(json!({"name": "data", "emptyDir": {}})),
            PlaneStorage::Claim { .. } => {}
        }
        volumes.extend(self.etcd_tls().map(|_| secret("etcd", ETCD_CERTIFICATES)));
        volumes.extend(self.authority.as_ref().map(|_| secret("keys", CERTIFICATES)));
        volumes.extend(self.encryption.as_ref().map(|_| secret("encryption", ENCRYPTION_SECRET)));
        volumes
    }
}

/// Secret with the CA, if one was given.
const CERTIFICATES: &str = "karmada-cert";
/// Secret with the certificates for etcd.
const ETCD_CERTIFICATES: &str = "etcd-cert";

fn selector() -> Map<String, Value> {
    let pairs = [("app.kubernetes.io/name", "flotilla"), ("app.kubernetes.io/instance", PLANE)];
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect()
}

fn labels() -> Map<String, Value> {
    let mut labels = selector();
    labels.insert("app.kubernetes.io/version".to_owned(), env!("CARGO_PKG_VERSION").into());
    labels.insert("app.kubernetes.io/managed-by".to_owned(), "flotilla".into());
    // Guides of Karmada select pods by this label.
    labels.insert("app".to_owned(), PLANE.into());
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    fn installation(storage: PlaneStorage) -> PlaneInstallation {
        PlaneInstallation {
            namespace: "karmada-system".into(),
            image: "flotilla:v1".into(),
            image_pull_policy: "IfNotPresent".into(),
            image_pull_secrets: Vec::new(),
            storage,
            node_port: Some(32443),
            host_port: None,
            advertise_url: None,
            domain: "cluster.local".into(),
            tls_names: vec!["10.0.0.1".into()],
            authority: None,
            encryption: None,
            priority_class: None,
            node_selector: BTreeMap::new(),
            arguments: vec!["--event-ttl=60".into()],
        }
    }

    fn kinds(installation: &PlaneInstallation) -> Vec<String> {
        installation.objects().iter().map(|object| object.kind().to_owned()).collect()
    }

    #[test]
    fn one_server_has_a_volume_and_several_share_etcd() {
        let one = installation(PlaneStorage::Claim { class: None, size: "5Gi".into() });
        assert_eq!(kinds(&one), ["Namespace", "ServiceAccount", "Role", "RoleBinding", "Service", "StatefulSet"]);
        let pair = KeyPair { certificate: "c".into(), key: "k".into() };
        let tls = Some(EtcdTls { authority: "ca".into(), client: pair.clone() });
        let etcd = ExternalEtcd { servers: vec!["https://a:2379".into()], prefix: "/p".into(), tls, replicas: 3 };
        let mut many = installation(PlaneStorage::Etcd(etcd));
        many.authority = Some(pair);
        many.encryption = Some("kind: EncryptionConfiguration".into());
        let expected = [
            "Namespace",
            "Secret",
            "Secret",
            "Secret",
            "ServiceAccount",
            "Role",
            "RoleBinding",
            "Service",
            "PodDisruptionBudget",
            "Deployment",
        ];
        assert_eq!(kinds(&many), expected);
        for object in many.objects().iter().skip(1) {
            let is_removed = object.name() != ENCRYPTION_SECRET;
            assert_eq!(object.label(LABEL_BOOTSTRAPPING).is_some(), is_removed, "{}", object.kind());
            assert!(PLANE_RESOURCES.iter().any(|resource| resource.kind == object.kind()), "{}", object.kind());
        }
        let arguments = many.server_arguments();
        let encryption = "--encryption-provider-config=/encryption/encryption.yaml";
        for flag in ["--etcd-prefix=/p", "--import-keys=/keys", "--event-ttl=60", "--tls-san=10.0.0.1", encryption] {
            assert!(arguments.iter().any(|argument| argument == flag), "{flag}: {arguments:?}");
        }
    }

    #[test]
    fn a_port_of_the_node_and_another_url_are_used_where_given() {
        let mut one = installation(PlaneStorage::EmptyDir);
        assert_eq!(one.container()["ports"], json!([{"name": "https", "containerPort": 5443}]));
        one.host_port = Some(HostPort { address: [10, 0, 0, 1].into(), port: 7000 });
        one.advertise_url = Some("https://127.0.0.1:32443".to_owned());
        assert_eq!(one.container()["ports"][0]["hostPort"], 7000);
        assert_eq!(one.container()["ports"][0]["hostIP"], "10.0.0.1");
        assert!(one.server_arguments().contains(&"--advertise-url=https://127.0.0.1:32443".to_owned()));
    }

    #[test]
    fn only_a_directory_of_the_node_needs_root() {
        let user = |storage| installation(storage).pod_security()["runAsUser"].clone();
        assert_eq!(user(PlaneStorage::HostPath("/var/lib/x".into())), 0);
        assert_eq!(user(PlaneStorage::EmptyDir), 65532);
    }
}
