//! Finds the members that have the pod or workload of `logs`, `exec` and `attach`.

use anyhow::bail;
use api::Resource;
use cluster_client::{ClusterClient, ListOptions, ResourceRef};
use futures::future::join_all;
use object::Object;
use object::selector::LabelSelector;

use crate::console::Console;
use crate::plane::PlaneClient;

const PODS: Resource = Resource::namespaced("", "v1", "Pod", "pods");

/// Marks the container that commands use if none is named.
const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";

/// Names of the kinds that have pods, with their short and plural forms.
const KINDS: [(&[&str], Resource); 6] = [
    (&["pod", "pods", "po"], Resource::namespaced("", "v1", "Pod", "pods")),
    (&["deployment", "deployments", "deploy"], Resource::namespaced("apps", "v1", "Deployment", "deployments")),
    (&["statefulset", "statefulsets", "sts"], Resource::namespaced("apps", "v1", "StatefulSet", "statefulsets")),
    (&["daemonset", "daemonsets", "ds"], Resource::namespaced("apps", "v1", "DaemonSet", "daemonsets")),
    (&["replicaset", "replicasets", "rs"], Resource::namespaced("apps", "v1", "ReplicaSet", "replicasets")),
    (&["job", "jobs"], Resource::namespaced("batch", "v1", "Job", "jobs")),
];

/// A pod or workload on the command line.
#[derive(Debug, PartialEq, Eq)]
pub struct PodTarget {
    resource: Resource,
    name: String,
    namespace: String,
}

impl PodTarget {
    /// Reads `POD` or `TYPE/NAME`.
    pub fn parse(text: &str, namespace: &str) -> anyhow::Result<Self> {
        let (kind, name) = text.split_once('/').unwrap_or(("pod", text));
        let lower = kind.to_lowercase();
        let known = KINDS.iter().find(|(names, _)| names.contains(&lower.split('.').next().unwrap_or_default()));
        let Some((_, resource)) = known.filter(|_| !name.is_empty()) else {
            bail!("{text:?} is no pod or workload; use POD, or TYPE/NAME of a deployment, statefulset, daemonset, …");
        };
        Ok(Self { resource: *resource, name: name.to_owned(), namespace: namespace.to_owned() })
    }

    /// Returns the pods of the object in a cluster: itself, or those its selector matches.
    pub async fn pods(&self, client: &ClusterClient) -> anyhow::Result<Vec<Object>> {
        let object = client.get(ResourceRef::namespaced(&self.resource.gvr(), &self.namespace, &self.name)).await?;
        if self.resource.kind == "Pod" {
            return Ok(vec![Object::clone(&object)]);
        }
        let selector = object.get(&["spec", "selector"]).cloned().unwrap_or_default();
        let selector = LabelSelector::from_value(Some(&selector))?;
        let list = client.list_all(ResourceRef::within(&PODS.gvr(), &self.namespace), ListOptions::default()).await?;
        let mut pods: Vec<Object> =
            list.items.iter().filter(|pod| selector.matches(pod)).map(|pod| Object::clone(pod)).collect();
        if pods.is_empty() {
            bail!("no pods of {} found in namespace {:?}", self.describe(), self.namespace);
        }
        // Running pods first, then the oldest.
        let rank = |pod: &Object| u8::from(pod.str_at(&["status", "phase"]) != "Running");
        pods.sort_by(|a, b| {
            (rank(a), a.creation_timestamp(), a.name()).cmp(&(rank(b), b.creation_timestamp(), b.name()))
        });
        Ok(pods)
    }

    /// Returns the names of the members that have the object, in the order of the clusters.
    pub async fn clusters(&self, plane: &PlaneClient) -> anyhow::Result<Vec<String>> {
        let clusters = plane.clusters().await?;
        let searches = clusters.iter().map(|cluster| async {
            let member = plane.member(cluster.name())?;
            // An unreachable member must not hide the others.
            let found = self.is_in(&member).await.unwrap_or(false);
            Ok::<_, anyhow::Error>(found.then(|| cluster.name().to_owned()))
        });
        let found: Result<Vec<Option<String>>, _> = join_all(searches).await.into_iter().collect();
        Ok(found?.into_iter().flatten().collect())
    }

    async fn is_in(&self, member: &ClusterClient) -> Result<bool, object::Status> {
        let target = ResourceRef::namespaced(&self.resource.gvr(), &self.namespace, &self.name);
        Ok(member.find(target).await?.is_some())
    }

    /// Returns the only member with the object, or the first one with a note about the others.
    pub async fn locate(&self, console: &Console, plane: &PlaneClient) -> anyhow::Result<String> {
        let clusters = self.clusters(plane).await?;
        match &clusters[..] {
            [] => bail!("{} not found in any reachable cluster; use -C CLUSTER to select one", self.describe()),
            [one] => Ok(one.clone()),
            [first, others @ ..] => {
                console.note(format!("Defaulted cluster {first:?} out of: {first}, {}", others.join(", ")));
                Ok(first.clone())
            }
        }
    }

    pub fn describe(&self) -> String {
        format!("{} {}", self.resource.kind.to_lowercase(), self.name)
    }
}

/// The containers of a pod in the order of kubectl, with what they are.
fn containers(pod: &Object) -> Vec<(&str, &'static str)> {
    let of = |field: &str, suffix: &'static str| {
        let items = pod.items(&["spec", field]).iter();
        items.filter_map(move |container| Some((container["name"].as_str()?, suffix))).collect::<Vec<_>>()
    };
    [of("containers", ""), of("ephemeralContainers", " (ephem)"), of("initContainers", " (init)")].concat()
}

/// Returns the names of all containers of a pod.
pub fn container_names(pod: &Object) -> Vec<String> {
    let of = |field: &str| pod.items(&["spec", field]).iter().filter_map(|c| c["name"].as_str().map(str::to_owned));
    of("initContainers").chain(of("containers")).chain(of("ephemeralContainers")).collect()
}

/// Returns the named container or the default one, and a note if it was chosen out of several.
pub fn container_of(pod: &Object, named: Option<&str>) -> anyhow::Result<(String, Option<String>)> {
    let all = containers(pod);
    let list = all.iter().map(|(name, suffix)| format!("{name}{suffix}")).collect::<Vec<_>>().join(", ");
    let exists = |name: &str| all.iter().any(|(other, _)| *other == name);
    if let Some(name) = named {
        if !exists(name) {
            bail!("container {name} is not valid for pod {} out of: {list}", pod.name());
        }
        return Ok((name.to_owned(), None));
    }
    if let Some(name) = pod.annotation(DEFAULT_CONTAINER).filter(|name| exists(name)) {
        return Ok((name.to_owned(), None));
    }
    let Some((first, _)) = all.first() else { bail!("pod {} has no containers", pod.name()) };
    let note = (all.len() > 1).then(|| format!("Defaulted container {first:?} out of: {list}"));
    Ok(((*first).to_owned(), note))
}

#[cfg(test)]
mod tests {
    use cluster_client::testing::MemoryApi;

    use super::*;

    #[test]
    fn pods_and_workloads_are_named() {
        let check = |text: &str, kind: &str, name: &str| {
            let target = PodTarget::parse(text, "shop").unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!((target.resource.kind, target.name.as_str()), (kind, name), "{text}");
            assert_eq!(target.namespace, "shop");
        };
        check("web-1", "Pod", "web-1");
        check("deploy/web", "Deployment", "web");
        check("deployments.apps/web", "Deployment", "web");
        check("Job/sum", "Job", "sum");
        for wrong in ["svc/web", "deploy/"] {
            assert!(PodTarget::parse(wrong, "").unwrap_err().to_string().contains(wrong));
        }
    }

    #[test]
    fn the_first_container_is_the_default() {
        let pod = |annotation: &str| {
            let mut pod = PODS.object("default", "web");
            let containers = serde_json::json!([{"name": "app"}, {"name": "proxy"}]);
            pod.set(&["spec", "containers"], containers);
            pod.set(&["spec", "initContainers"], serde_json::json!([{"name": "prepare"}]));
            if !annotation.is_empty() {
                pod.set_annotation(DEFAULT_CONTAINER, annotation);
            }
            pod
        };
        let pick = |pod: &Object, named| container_of(pod, named).map_err(|e| e.to_string());
        let note = "Defaulted container \"app\" out of: app, proxy, prepare (init)".to_owned();
        assert_eq!(pick(&pod(""), None), Ok(("app".into(), Some(note))));
        assert_eq!(pick(&pod("proxy"), None), Ok(("proxy".into(), None)));
        assert_eq!(pick(&pod(""), Some("prepare")), Ok(("prepare".into(), None)));
        let error = pick(&pod(""), Some("x")).unwrap_err();
        assert_eq!(error, "container x is not valid for pod web out of: app, proxy, prepare (init)");
    }

    #[tokio::test]
    async fn the_members_with_the_object_are_found() {
        let plane_api = MemoryApi::default();
        let members: Vec<(&'static str, MemoryApi)> =
            ["m1", "m2", "m3"].map(|name| (name, MemoryApi::default())).into_iter().collect();
        for (name, api) in &members {
            plane_api.seed(&api::cluster::CLUSTERS.gvr(), api::cluster::CLUSTERS.object("", name));
            if *name != "m2" {
                let deployments = KINDS[1].1;
                api.seed(&deployments.gvr(), deployments.object("default", "web"));
            }
        }
        members[2].1.set_fault(|_| Some(object::Status::new(503, "ServiceUnavailable", "away")));
        let plane = PlaneClient::given(plane_api.client(), members.iter().map(|(name, api)| (*name, api.client())));
        let target = PodTarget::parse("deploy/web", "default").unwrap();
        assert_eq!(target.clusters(&plane).await.unwrap(), ["m1"], "an unreachable member is skipped");
    }
}
