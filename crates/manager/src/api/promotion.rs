//! Promotion of objects of a cluster: the instance gets a template and a policy for what already runs in the cluster.

use api::cluster::LABEL_MANAGED;
use api::config::{DependentObjectReference, INTERPRETER_CUSTOMIZATIONS};
use api::features::Features;
use api::names::policy_name;
use api::policy::{CLUSTER_PROPAGATION_POLICIES, PROPAGATION_POLICIES};
use api::work::ANNOTATION_CONFLICT_RESOLUTION;
use cluster_client::{ApiResource, ApiResources, ClusterClient, DeleteOptions, ListOptions, ResourceRef, WriteOptions};
use interpreter::question::Dependencies;
use interpreter::{Interpreter, Operation};
use interpreter_runtime::environment;
use jiff::Timestamp;
use manager_api::json::object::from_json;
use manager_api::*;
use object::percent::encode;
use object::{Object, Status};
use serde_json::{Value, json};
use transcode::errors::failed_precondition;

use super::convert::created;
use super::{ApiCaller, ManagerApi};

const FIELD_MANAGER: &str = "flotilla-console";
/// Objects that are listed.
const LISTED_MAX: usize = 500;
/// Objects that one promotion takes along.
const DEPENDENCIES_MAX: usize = 50;
/// Kinds that are offered. Others can be promoted by their name.
const OFFERED: [(&str, &str, &str); 8] = [
    ("apps", "deployments", "Deployment"),
    ("apps", "statefulsets", "StatefulSet"),
    ("apps", "daemonsets", "DaemonSet"),
    ("batch", "jobs", "Job"),
    ("batch", "cronjobs", "CronJob"),
    ("", "services", "Service"),
    ("networking.k8s.io", "ingresses", "Ingress"),
    ("", "configmaps", "ConfigMap"),
];
const SYSTEM_NAMESPACES: [&str; 5] =
    ["kube-system", "kube-public", "kube-node-lease", "karmada-system", "karmada-cluster"];
/// Objects that every cluster makes for itself.
const OWN_OBJECTS: [(&str, &str); 2] = [("Service", "kubernetes"), ("ConfigMap", "kube-root-ca.crt")];

/// An object of a cluster.
pub struct Promoted<'a> {
    pub instance: &'a str,
    pub cluster: &'a str,
    pub namespace: &'a str,
    /// `RESOURCE` or `RESOURCE.GROUP`.
    pub resource: &'a str,
    pub name: &'a str,
    pub with_dependencies: bool,
}

/// An object to create in the instance.
struct Wanted {
    resource: ResourceRef,
    object: Object,
    exists: bool,
}

/// The objects of a promotion in the order in which they are created; the policy is the last one.
struct PromotionPlan {
    client: ClusterClient,
    objects: Vec<Wanted>,
}

fn member_path(cluster: &str, group: &str, version: &str, rest: &str) -> String {
    let api = if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") };
    format!("/apis/cluster.karmada.io/v1alpha1/clusters/{}/proxy/{api}/{rest}", encode(cluster))
}

/// Finds `deployments` or `ingresses.networking.k8s.io`; Kubernetes' own groups need not be named.
fn resource_named(known: &ApiResources, name: &str) -> Option<ApiResource> {
    let (plural, group) = name.split_once('.').unwrap_or((name, ""));
    let is_meant = |resource: &&ApiResource| {
        resource.gvr.resource == plural
            && (resource.gvr.group == group || (group.is_empty() && !resource.gvr.group.contains('.')))
    };
    known.resources.iter().find(is_meant).cloned()
}

fn place(resource: &ApiResource, namespace: &str, name: &str) -> ResourceRef {
    match resource.namespaced {
        true => ResourceRef::namespaced(&resource.gvr, namespace, name),
        false => ResourceRef::cluster(&resource.gvr, name),
    }
}

/// The object as a template that may adopt what runs in the cluster.
fn as_template(mut object: Object) -> Object {
    propagation::works::prune_server_fields(&mut object);
    if object.annotation(ANNOTATION_CONFLICT_RESOLUTION).is_none() {
        object.set_annotation(ANNOTATION_CONFLICT_RESOLUTION, "overwrite");
    }
    object
}

/// The policy that keeps a promoted object in its cluster.
fn policy_of(template: &Object, cluster: &str, with_dependencies: bool) -> (ResourceRef, Object) {
    let namespace = template.namespace();
    let kind = if namespace.is_empty() { &CLUSTER_PROPAGATION_POLICIES } else { &PROPAGATION_POLICIES };
    let name = policy_name(namespace, template.name(), &template.gvk().to_string());
    let mut policy = kind.object(namespace, &name);
    let mut spec = json!({
        "conflictResolution": "Overwrite",
        "placement": {"clusterAffinity": {"clusterNames": [cluster]}},
        "preserveResourcesOnDeletion": true,
        "resourceSelectors": [
            {"apiVersion": template.api_version(), "kind": template.kind(), "name": template.name()},
        ],
    });
    if with_dependencies {
        spec["propagateDeps"] = true.into();
    }
    policy.set(&["spec"], spec);
    let target = match namespace {
        "" => ResourceRef::cluster(&kind.gvr(), &name),
        namespace => ResourceRef::namespaced(&kind.gvr(), namespace, &name),
    };
    (target, policy)
}

/// Returns the objects that an object refers to, by the rules of the instance. Webhooks are not asked.
async fn dependencies_of(client: &ClusterClient, source: &Object) -> Result<Vec<DependentObjectReference>, Status> {
    let rules = ResourceRef::all(&INTERPRETER_CUSTOMIZATIONS.gvr());
    let customizations = match client.list_all(rules, ListOptions::default()).await {
        Ok(list) => list.items,
        // Users of one namespace may not read the rules of the whole instance; the built-in ones hold for them.
        Err(status) if status.code == 403 => Vec::new(),
        Err(status) => return Err(status),
    };
    let interpreter = Interpreter::new(&customizations, &[], &Features::default(), &environment::system());
    if !interpreter.has_hook(&source.gvk(), Operation::InterpretDependency) {
        return Ok(Vec::new());
    }
    let found = interpreter.answer(Dependencies(source), Timestamp::now(), None);
    found.map_err(|error| failed_precondition(format!("its dependencies are not known: {error}")))
}

impl ManagerApi {
    /// Reads an object of a cluster with the caller's rights there.
    async fn member_object(
        &self,
        client: &ClusterClient,
        cluster: &str,
        (resource, namespace, name): (&ApiResource, &str, &str),
    ) -> Result<Object, Status> {
        let plural = encode(&resource.gvr.resource);
        let rest = match resource.namespaced {
            true => format!("namespaces/{}/{plural}/{}", encode(namespace), encode(name)),
            false => format!("{plural}/{}", encode(name)),
        };
        let value = client.get_json(&member_path(cluster, &resource.gvr.group, &resource.gvr.version, &rest)).await?;
        Object::from_value(value).ok_or_else(|| Status::internal("the cluster did not return an object"))
    }

    async fn plan_promotion(&self, caller: &ApiCaller, promoted: &Promoted<'_>) -> Result<PromotionPlan, Status> {
        let client = self.operations.instance_client(&caller.user, promoted.instance).await?;
        self.operations.prepare_member_user(&caller.user, promoted.instance).await?;
        let known = ApiResources::discover(&client).await?;
        let unknown = || Status::bad_request(format!("resource: the instance does not serve {}", promoted.resource));
        let resource = resource_named(&known, promoted.resource).ok_or_else(unknown)?;
        let at = (&resource, promoted.namespace, promoted.name);
        let source = self.member_object(&client, promoted.cluster, at).await?;
        if source.label(LABEL_MANAGED) == Some("true") {
            return Err(failed_precondition("the object is managed by an instance already"));
        }
        if !source.items(&["metadata", "ownerReferences"]).is_empty() {
            return Err(failed_precondition("the object belongs to another one: promote its owner"));
        }
        let mut objects = Vec::new();
        if promoted.with_dependencies {
            for reference in dependencies_of(&client, &source).await? {
                let found = self.dependency(&client, &known, (promoted, &reference)).await?;
                objects.extend(found);
            }
        }
        let template = as_template(source);
        let (policy_target, policy) = policy_of(&template, promoted.cluster, promoted.with_dependencies);
        let target = place(&resource, promoted.namespace, promoted.name);
        objects.push(Wanted { resource: target, object: template, exists: false });
        objects.push(Wanted { resource: policy_target, object: policy, exists: false });
        for wanted in &mut objects {
            wanted.exists = client.find(wanted.resource.clone()).await?.is_some();
        }
        Ok(PromotionPlan { client, objects })
    }

    /// Returns an object that the promoted one refers to, if the cluster has it and no Work manages it.
    async fn dependency(
        &self,
        client: &ClusterClient,
        known: &ApiResources,
        (promoted, reference): (&Promoted<'_>, &DependentObjectReference),
    ) -> Result<Option<Wanted>, Status> {
        let has_kind = |resource: &&ApiResource| {
            resource.kind == reference.kind && resource.gvk().api_version() == reference.api_version
        };
        let Some(resource) = known.resources.iter().find(has_kind) else { return Ok(None) };
        let namespace = if reference.namespace.is_empty() { promoted.namespace } else { reference.namespace.as_str() };
        if reference.name.is_empty() {
            return Ok(None);
        }
        match self.member_object(client, promoted.cluster, (resource, namespace, &reference.name)).await {
            Ok(found) if found.label(LABEL_MANAGED) == Some("true") => Ok(None),
            Ok(found) => Ok(Some(Wanted {
                resource: place(resource, namespace, &reference.name),
                object: as_template(found),
                exists: false,
            })),
            // An optional reference.
            Err(status) if status.is_not_found() => Ok(None),
            Err(status) => Err(status),
        }
    }

    pub(super) async fn preview(&self, caller: &ApiCaller, promoted: &Promoted<'_>) -> Result<Promotion, Status> {
        let plan = self.plan_promotion(caller, promoted).await?;
        Ok(shown(&plan.objects, String::new()))
    }

    pub(super) async fn promote(&self, caller: &ApiCaller, promoted: &Promoted<'_>) -> Result<Promotion, Status> {
        let PromotionPlan { client, objects } = self.plan_promotion(caller, promoted).await?;
        if objects.len() > DEPENDENCIES_MAX {
            return Err(failed_precondition(format!("it needs more than {DEPENDENCIES_MAX} other objects")));
        }
        // Object and policy are the last two.
        let own = objects.len().saturating_sub(2);
        if let Some(taken) = objects.iter().skip(own).find(|wanted| wanted.exists) {
            let (kind, name) = (taken.object.kind(), taken.object.name());
            let text = format!("the instance has {kind} {name} already; edit it to propagate the object");
            return Err(Status::conflict(&taken.resource.gvr.group_resource(), name, text));
        }
        let mut version = String::new();
        let mut made: Vec<&Wanted> = Vec::new();
        for wanted in objects.iter().filter(|wanted| !wanted.exists) {
            let collection = ResourceRef { name: None, ..wanted.resource.clone() };
            let options = WriteOptions::managed_by(FIELD_MANAGER);
            match client.create(collection, wanted.object.clone(), options).await {
                Ok(created) => {
                    version = self.version_of(promoted.instance, created.resource_version());
                    made.push(wanted);
                }
                Err(status) => {
                    revert(&client, &made).await;
                    return Err(status);
                }
            }
        }
        Ok(shown(&objects, version))
    }

    pub(super) async fn promotable(
        &self,
        caller: &ApiCaller,
        request: &ListPromotableRequest,
    ) -> Result<ListPromotableResponse, Status> {
        let client = self.operations.instance_client(&caller.user, &request.instance).await?;
        self.operations.prepare_member_user(&caller.user, &request.instance).await?;
        let mut response = ListPromotableResponse::default();
        for (group, plural, kind) in OFFERED {
            let rest = match request.namespace.as_str() {
                "" => plural.to_owned(),
                namespace => format!("namespaces/{}/{plural}", encode(namespace)),
            };
            let selector = encode(&format!("{LABEL_MANAGED}!=true"));
            let path = member_path(&request.cluster, group, "v1", &format!("{rest}?labelSelector={selector}"));
            let list = client.get_json(&path).await?;
            let items = list["items"].as_array().cloned().unwrap_or_default();
            for item in items.into_iter().filter_map(Object::from_value) {
                if !is_offered(&item, kind, !request.namespace.is_empty()) {
                    continue;
                }
                if response.objects.len() == LISTED_MAX {
                    response.truncated = true;
                    return Ok(response);
                }
                let resource = if group.contains('.') { format!("{plural}.{group}") } else { plural.to_owned() };
                response.objects.push(PromotableObject {
                    resource,
                    kind: kind.to_owned(),
                    namespace: item.namespace().to_owned(),
                    name: item.name().to_owned(),
                    create_time: created(&item),
                });
            }
        }
        Ok(response)
    }
}

/// Objects without an owner that users have made. Services of type LoadBalancer have an address in their cluster.
fn is_offered(object: &Object, kind: &str, is_namespace_chosen: bool) -> bool {
    let is_own = OWN_OBJECTS.contains(&(kind, object.name()));
    let is_system = !is_namespace_chosen && SYSTEM_NAMESPACES.contains(&object.namespace());
    let has_owner = !object.items(&["metadata", "ownerReferences"]).is_empty();
    let is_load_balancer = kind == "Service" && object.str_at(&["spec", "type"]) == "LoadBalancer";
    !(is_own || is_system || has_owner || is_load_balancer)
}

/// Removes what an unfinished promotion made. Nothing propagates it yet, because the policy is made last.
async fn revert(client: &ClusterClient, made: &[&Wanted]) {
    for wanted in made.iter().rev() {
        if let Err(status) = client.delete(wanted.resource.clone(), DeleteOptions::default()).await {
            tracing::warn!(name = wanted.object.name(), %status, "an object of a failed promotion is left");
        }
    }
}

/// The objects as messages. Contents of Secrets are not shown.
fn shown(objects: &[Wanted], version: String) -> Promotion {
    let objects = objects.iter().map(|wanted| {
        let mut object = wanted.object.clone();
        if object.kind() == "Secret" {
            object.remove(&["data"]);
        }
        PromotedObject {
            api_version: object.api_version().to_owned(),
            kind: object.kind().to_owned(),
            namespace: object.namespace().to_owned(),
            name: object.name().to_owned(),
            exists: wanted.exists,
            object: match object.into_value() {
                Value::Object(fields) => Some(from_json(fields)),
                _ => None,
            },
        }
    });
    Promotion { objects: objects.collect(), version }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(kind: &str, value: Value) -> Object {
        let mut object = Object::from_value(value).expect("an object");
        object.set(&["kind"], kind);
        object
    }

    #[test]
    fn objects_of_users_are_offered() {
        let check = |kind: &str, value: Value, chosen: bool, expected: bool| {
            assert_eq!(is_offered(&object(kind, value.clone()), kind, chosen), expected, "{kind} {value}");
        };
        check("Service", json!({"metadata": {"namespace": "shop", "name": "web"}}), false, true);
        check("Service", json!({"metadata": {"namespace": "default", "name": "kubernetes"}}), true, false);
        check("Service", json!({"metadata": {"name": "web"}, "spec": {"type": "LoadBalancer"}}), true, false);
        check("ConfigMap", json!({"metadata": {"namespace": "kube-system", "name": "a"}}), false, false);
        check("ConfigMap", json!({"metadata": {"namespace": "kube-system", "name": "a"}}), true, true);
        check("Job", json!({"metadata": {"name": "a", "ownerReferences": [{"name": "cron"}]}}), true, false);
    }

    #[test]
    fn a_promoted_object_is_pinned_to_its_cluster() {
        let source = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"namespace": "shop", "name": "web", "uid": "u", "resourceVersion": "7"},
            "spec": {"replicas": 2}, "status": {"replicas": 2},
        });
        let template = as_template(Object::from_value(source).expect("an object"));
        assert_eq!((template.uid(), template.resource_version()), ("", ""));
        assert_eq!(template.annotation(ANNOTATION_CONFLICT_RESOLUTION), Some("overwrite"));
        let (_, policy) = policy_of(&template, "m1", true);
        assert_eq!(policy.namespace(), "shop");
        let clusters = policy.items(&["spec", "placement", "clusterAffinity", "clusterNames"]);
        assert_eq!((clusters, policy.bool_at(&["spec", "propagateDeps"])), (&[json!("m1")][..], Some(true)));
    }
}
