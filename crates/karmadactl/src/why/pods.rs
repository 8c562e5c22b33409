//! The pods of an unhealthy workload, read from the member with the permissions of the user.

use api::Resource;
use cluster_client::{ClusterClient, ListOptions, ResourceRef};
use object::{Object, Status};
use serde_json::{Value, json};

use crate::plane::PlaneClient;
use crate::pod_problem::PodProblem;

const PODS: Resource = Resource::namespaced("", "v1", "Pod", "pods");
/// Pods that are listed.
const PODS_MAX: usize = 5;

/// Adds the problems of the pods to an answer that says the object is unhealthy. Members that cannot be read are left out:
/// the answer is complete without them.
pub async fn add(plane: &PlaneClient, object: ResourceRef, answer: &mut Value) {
    if answer["reason"]["code"] != "Unhealthy" {
        return;
    }
    let Some(cluster) = answer["reason"]["cluster"].as_str().map(str::to_owned) else { return };
    let Ok(member) = plane.member(&cluster) else { return };
    let pods = pods_of(&member, object).await.unwrap_or_default();
    let problems: Vec<(String, String, PodProblem)> = pods
        .iter()
        .filter_map(|pod| Some((pod.name().to_owned(), pod.namespace().to_owned(), PodProblem::of_unready(pod)?)))
        .collect();
    report(answer, &cluster, &problems);
}

/// The pods of a workload; the object itself if it is a pod.
async fn pods_of(member: &ClusterClient, object: ResourceRef) -> Result<Vec<Object>, Status> {
    let namespace = object.namespace.clone().unwrap_or_default();
    let Some(found) = member.find(object).await? else { return Ok(Vec::new()) };
    if found.kind() == PODS.kind && found.api_version() == PODS.version {
        return Ok(vec![(*found).clone()]);
    }
    let labels: Vec<String> = found
        .get(&["spec", "selector", "matchLabels"])
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    if labels.is_empty() {
        return Ok(Vec::new());
    }
    let options = ListOptions { label_selector: Some(labels.join(",")), ..ListOptions::default() };
    let listed = member.list_all(ResourceRef::within(&PODS.gvr(), &namespace), options).await?;
    Ok(listed.items.iter().map(|pod| (**pod).clone()).collect())
}

/// Writes the problems into the answer: as data, as lines of the text, and the first as the next step.
fn report(answer: &mut Value, cluster: &str, problems: &[(String, String, PodProblem)]) {
    let Some((name, namespace, first)) = problems.first() else { return };
    let next =
        format!("{}: `flotilla {} -C {cluster}{}`", first.advice(), first.arguments(name, namespace), scope(first));
    let mut lines = String::new();
    for (name, _, problem) in problems.iter().take(PODS_MAX) {
        lines.push_str(&format!("  pod {name} in {cluster} {}: {}\n", problem.summary(), problem.cause()));
    }
    if problems.len() > PODS_MAX {
        lines.push_str(&format!("  {} more pods in {cluster} do not run\n", problems.len() - PODS_MAX));
    }
    let data = problems.iter().take(PODS_MAX).map(|(name, _, problem)| {
        json!({"cluster": cluster, "name": name, "problem": problem.summary(), "cause": problem.cause()})
    });
    answer["pods"] = Value::Array(data.collect());
    let text = answer["text"].as_str().unwrap_or_default();
    let mut before: Vec<&str> = text.lines().take_while(|line| !line.starts_with("Next: ")).collect();
    let rest: Vec<&str> = text.lines().skip(before.len() + 1).collect();
    let next_line = format!("Next: {next}");
    before.extend(lines.lines());
    before.push(&next_line);
    before.extend(rest);
    answer["text"] = Value::String(before.join("\n"));
    answer["nextStep"] = Value::String(next);
}

/// `logs` is always about a member.
fn scope(problem: &PodProblem) -> &'static str {
    match problem {
        PodProblem::Crashing { .. } | PodProblem::NotReady { .. } => "",
        _ => " -s members",
    }
}

#[cfg(test)]
mod tests {
    use cluster_client::testing::MemoryApi;

    use super::*;

    const DEPLOYMENTS: Resource = Resource::namespaced("apps", "v1", "Deployment", "deployments");

    async fn check(waiting: &str, lines: &[&str], next: &str) {
        let member = MemoryApi::default();
        let mut web = DEPLOYMENTS.object("shop", "web");
        web.set(&["spec"], json!({"selector": {"matchLabels": {"app": "web"}}}));
        member.seed(&DEPLOYMENTS.gvr(), web);
        for (name, app) in [("web-1", "web"), ("other-1", "other")] {
            let mut pod = PODS.object("shop", name);
            pod.set_label("app", app);
            let status = json!({"phase": "Pending", "containerStatuses": [{"name": "c", "image": "nginx:no",
                "state": {"waiting": {"reason": waiting, "message": "the message"}}}]});
            pod.set(&["status"], status);
            member.seed(&PODS.gvr(), pod);
        }
        let plane = PlaneClient::given(MemoryApi::default().client(), [("m1", member.client())]);
        let mut answer = json!({"reason": {"code": "Unhealthy", "cluster": "m1"}, "nextStep": "old",
            "text": "web: it waits\nNext: old\n\ndone template"});
        let target = ResourceRef::namespaced(&DEPLOYMENTS.gvr(), "shop", "web");
        add(&plane, target, &mut answer).await;
        assert_eq!(answer["nextStep"], next);
        let text = answer["text"].as_str().unwrap_or_default();
        for line in lines {
            assert!(text.contains(line), "{text}");
        }
        assert!(text.starts_with("web: it waits\n") && text.ends_with("\n\ndone template"), "{text}");
        assert!(!text.contains("other-1") && text.matches("Next: ").count() == 1, "{text}");
    }

    #[tokio::test]
    async fn reasons_of_an_unhealthy_workload_come_from_its_pods() {
        check(
            "ImagePullBackOff",
            &["pod web-1 in m1 container c cannot get image nginx:no (ImagePullBackOff): the message"],
            "correct the name of the image, or make it available to the cluster: \
             `flotilla describe pod web-1 -n shop -C m1 -s members`",
        )
        .await;
        check(
            "CrashLoopBackOff",
            &["keeps crashing"],
            "read the output of the container before its last exit: `flotilla logs web-1 -n shop -c c --previous -C m1`",
        )
        .await;
        check("ContainerCreating", &[], "old").await;
    }
}
