//! Finds the members that have the pod or workload of `logs`, `exec` and `attach`.

use std::ffi::OsString;

use api::Resource;
use cluster_client::{ClusterClient, ResourceRef};
use futures::future::join_all;

use crate::plane::PlaneClient;

/// Flags of `kubectl logs`, `exec` and `attach` that take a value as the next argument.
const VALUE_FLAGS: [&str; 12] = [
    "-n",
    "--namespace",
    "-c",
    "--container",
    "-l",
    "--selector",
    "--tail",
    "--since",
    "--since-time",
    "--limit-bytes",
    "--pod-running-timeout",
    "--max-log-requests",
];

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
    namespace: Option<String>,
}

impl PodTarget {
    /// Reads `POD` or `TYPE/NAME`, and the namespace, from the arguments of kubectl; `None` for anything else.
    pub fn parse(arguments: &[OsString]) -> Option<Self> {
        let mut namespace = None;
        let mut object = None;
        let mut words = arguments.iter().map(|word| word.to_str().unwrap_or_default());
        while let Some(word) = words.next() {
            if word == "--" {
                break;
            }
            match word.split_once('=') {
                Some(("-n" | "--namespace", value)) => namespace = Some(value.to_owned()),
                _ if VALUE_FLAGS.contains(&word) => {
                    let value = words.next();
                    if matches!(word, "-n" | "--namespace") {
                        namespace = value.map(str::to_owned);
                    }
                }
                _ if word.starts_with('-') => {}
                _ if object.is_none() => object = Some(word),
                _ => {}
            }
        }
        let (kind, name) = object?.split_once('/').unwrap_or(("pod", object?));
        let (_, resource) = KINDS.iter().find(|(names, _)| names.contains(&kind.to_lowercase().as_str()))?;
        Some(Self { resource: *resource, name: name.to_owned(), namespace })
    }

    /// Returns the names of the members that have the object, in the order of the clusters.
    pub async fn clusters(&self, plane: &PlaneClient) -> anyhow::Result<Vec<String>> {
        let namespace = self.namespace.as_deref().unwrap_or(&plane.namespace);
        let clusters = plane.clusters().await?;
        let searches = clusters.iter().map(|cluster| async {
            let member = plane.member(cluster.name())?;
            // An unreachable member must not hide the others.
            let found = self.is_in(&member, namespace).await.unwrap_or(false);
            Ok::<_, anyhow::Error>(found.then(|| cluster.name().to_owned()))
        });
        let found: Result<Vec<Option<String>>, _> = join_all(searches).await.into_iter().collect();
        Ok(found?.into_iter().flatten().collect())
    }

    async fn is_in(&self, member: &ClusterClient, namespace: &str) -> Result<bool, object::Status> {
        let target = ResourceRef::namespaced(&self.resource.gvr(), namespace, &self.name);
        Ok(member.find(target).await?.is_some())
    }

    pub fn describe(&self) -> String {
        format!("{} {}", self.resource.kind.to_lowercase(), self.name)
    }
}

#[cfg(test)]
mod tests {
    use cluster_client::testing::MemoryApi;

    use super::*;

    fn parse(line: &str) -> Option<PodTarget> {
        PodTarget::parse(&line.split_whitespace().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn the_target_is_the_first_argument_that_is_not_a_flag() {
        let check = |line: &str, kind: &str, name: &str, namespace: Option<&str>| {
            let target = parse(line).unwrap_or_else(|| panic!("{line}"));
            assert_eq!((target.resource.kind, target.name.as_str()), (kind, name), "{line}");
            assert_eq!(target.namespace.as_deref(), namespace, "{line}");
        };
        check("web-1", "Pod", "web-1", None);
        check("-it deploy/web -n shop -- sh -c ls", "Deployment", "web", Some("shop"));
        check("-c app --tail 5 sts/db --namespace=x", "StatefulSet", "db", Some("x"));
        check("-f Job/sum", "Job", "sum", None);
        assert_eq!(parse("-l app=web"), None);
        assert_eq!(parse("svc/web"), None);
        assert_eq!(parse("-- ls"), None);
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
        let target = parse("deploy/web").expect("a target");
        assert_eq!(target.clusters(&plane).await.unwrap(), ["m1"], "an unreachable member is skipped");
    }
}
