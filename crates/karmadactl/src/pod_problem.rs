//! The reason why a pod does not run, and the command that shows more.

use object::{Object, conditions};
use serde_json::Value;

const IMAGE_REASONS: &[&str] = &["ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull"];
/// Normal while a pod starts.
const STARTING_REASONS: &[&str] = &["ContainerCreating", "PodInitializing", ""];

/// The reason why a pod does not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodProblem {
    NotScheduled { message: String },
    Image { container: String, image: String, reason: String, message: String },
    Waiting { container: String, reason: String, message: String },
    Crashing { container: String, code: i64, restarts: i64 },
    NotReady { container: String },
    Failed { message: String },
}

impl PodProblem {
    /// Returns `None` for a pod that runs, ends well or is being deleted. A container that runs without being ready is
    /// reported by [`Self::of_unready`] only: it may be ready a moment later.
    pub fn of(pod: &Object) -> Option<Self> {
        let phase = pod.str_at(&["status", "phase"]);
        if pod.is_deleting() || phase == "Succeeded" {
            return None;
        }
        if phase == "Failed" {
            let text = |field: &str| pod.str_at(&["status", field]).to_owned();
            let why = format!("{}: {}", text("reason"), text("message"));
            return Some(Self::Failed { message: why.trim_matches([':', ' ']).to_owned() });
        }
        if let Some(scheduled) = conditions::find(pod, "PodScheduled").filter(|scheduled| scheduled.is_false()) {
            return Some(Self::NotScheduled { message: scheduled.message().to_owned() });
        }
        containers(pod).find_map(Self::of_container)
    }

    /// Like [`Self::of`], and also reports containers that run without being ready.
    pub fn of_unready(pod: &Object) -> Option<Self> {
        let is_unready = |status: &&Value| status["ready"] == false && status.pointer("/state/running").is_some();
        let unready = || (!pod.is_deleting()).then(|| containers(pod).find(is_unready)).flatten();
        Self::of(pod).or_else(|| Some(Self::NotReady { container: unready()?["name"].as_str()?.to_owned() }))
    }

    fn of_container(status: &Value) -> Option<Self> {
        let text = |at: &str| status.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (container, reason) = (text("/name"), text("/state/waiting/reason"));
        let message = text("/state/waiting/message");
        if reason == "CrashLoopBackOff" {
            let code = status.pointer("/lastState/terminated/exitCode").and_then(Value::as_i64).unwrap_or(-1);
            return Some(Self::Crashing { container, code, restarts: status["restartCount"].as_i64().unwrap_or(0) });
        }
        if IMAGE_REASONS.contains(&reason.as_str()) {
            return Some(Self::Image { container, image: text("/image"), reason, message });
        }
        if STARTING_REASONS.contains(&reason.as_str()) {
            return None;
        }
        Some(Self::Waiting { container, reason, message })
    }

    /// Returns the problem in a few words.
    pub fn summary(&self) -> String {
        match self {
            Self::NotScheduled { .. } => "is Pending: no node accepts it".to_owned(),
            Self::Image { container, image, reason, .. } => {
                format!("container {container} cannot get image {image} ({reason})")
            }
            Self::Waiting { container, reason, .. } => format!("container {container} does not start ({reason})"),
            Self::Crashing { container, .. } => format!("container {container} keeps crashing (CrashLoopBackOff)"),
            Self::NotReady { container } => format!("container {container} runs, but is not ready"),
            Self::Failed { .. } => "has failed".to_owned(),
        }
    }

    /// Returns what the status of the pod says about the cause.
    pub fn cause(&self) -> String {
        match self {
            Self::NotScheduled { message } | Self::Failed { message } => message.clone(),
            Self::Image { message, .. } | Self::Waiting { message, .. } => message.clone(),
            Self::Crashing { code, restarts, .. } => {
                format!("it exited with code {code} and was restarted {restarts} times")
            }
            Self::NotReady { .. } => "its readiness probe does not succeed".to_owned(),
        }
    }

    /// Returns the arguments of kubectl or of our own client that show more.
    pub fn arguments(&self, name: &str, namespace: &str) -> String {
        match self {
            Self::Crashing { container, .. } => format!("logs {name} -n {namespace} -c {container} --previous"),
            Self::NotReady { container } => format!("logs {name} -n {namespace} -c {container}"),
            _ => format!("describe pod {name} -n {namespace}"),
        }
    }

    /// Returns true if the container has to be changed, not the cluster.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::NotScheduled { .. } => "add nodes, or lower the resource requests of the pod",
            Self::Image { .. } => "correct the name of the image, or make it available to the cluster",
            Self::Waiting { .. } => "see what the pod waits for",
            Self::Crashing { .. } => "read the output of the container before its last exit",
            Self::NotReady { .. } => "read the output of the container",
            Self::Failed { .. } => "see why the pod failed",
        }
    }
}

fn containers(pod: &Object) -> impl Iterator<Item = &Value> {
    let lists = ["initContainerStatuses", "containerStatuses"];
    lists.into_iter().flat_map(|list| pod.items(&["status", list]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(status: Value, summary: &str, arguments: &str) {
        let pod = json!({"metadata": {"name": "web-1", "namespace": "shop"}, "status": status});
        let pod = Object::from_value(pod).expect("an object");
        let problem = PodProblem::of_unready(&pod);
        assert_eq!(problem.as_ref().map(PodProblem::summary).unwrap_or_default(), summary);
        assert_eq!(problem.map(|p| p.arguments("web-1", "shop")).unwrap_or_default(), arguments, "{summary}");
    }

    #[test]
    fn the_status_of_a_pod_has_the_reason() {
        let waiting = |reason: &str| {
            json!({"phase": "Pending", "containerStatuses": [{"name": "app", "image": "nginx:no", "restartCount": 3,
                "state": {"waiting": {"reason": reason, "message": "m"}},
                "lastState": {"terminated": {"exitCode": 2}}}]})
        };
        let describe = "describe pod web-1 -n shop";
        check(waiting("ImagePullBackOff"), "container app cannot get image nginx:no (ImagePullBackOff)", describe);
        check(
            waiting("CreateContainerConfigError"),
            "container app does not start (CreateContainerConfigError)",
            describe,
        );
        let logs = "logs web-1 -n shop -c app --previous";
        check(waiting("CrashLoopBackOff"), "container app keeps crashing (CrashLoopBackOff)", logs);
        check(waiting("ContainerCreating"), "", "");
        let scheduled = json!([{"type": "PodScheduled", "status": "False", "message": "no cpu"}]);
        check(json!({"phase": "Pending", "conditions": scheduled}), "is Pending: no node accepts it", describe);
        check(json!({"phase": "Failed", "reason": "Evicted"}), "has failed", describe);
        check(json!({"phase": "Succeeded"}), "", "");
        let running = |ready: bool| {
            json!({"phase": "Running", "containerStatuses": [{"name": "app", "ready": ready,
            "state": {"running": {}}}]})
        };
        check(running(true), "", "");
        check(running(false), "container app runs, but is not ready", "logs web-1 -n shop -c app");
    }
}
