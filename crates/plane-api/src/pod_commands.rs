//! Answers `kubectl logs`, `exec` and `attach` at once: the pods of a propagated workload are in its member clusters.
//!
//! Without this, kubectl waits for a pod of the workload until its timeout of up to two minutes.

use std::sync::Arc;

use apiserver::extension::{Extension, ExtensionRequest};
use apiserver::request::RequestInfo;
use apiserver::respond::Body;
use apiserver::server::Server;
use async_trait::async_trait;
use http::{HeaderMap, Response};
use object::Status;

/// The command line that a request of kubectl belongs to, without arguments.
const KUBECTL_COMMAND: &str = "kubectl-command";

/// Rejects requests for pods that belong to a command which needs running pods.
pub struct PodCommands;

#[async_trait]
impl Extension for PodCommands {
    fn handles(&self, _: &str) -> bool {
        false
    }

    fn rejection(&self, info: &RequestInfo, headers: &HeaderMap) -> Option<Status> {
        rejection(info, headers.get(KUBECTL_COMMAND)?.to_str().ok()?)
    }

    async fn serve(&self, _: &Arc<Server>, _: ExtensionRequest) -> Result<Response<Body>, Status> {
        Err(Status::resource_not_served())
    }
}

fn rejection(info: &RequestInfo, command: &str) -> Option<Status> {
    let command = ["logs", "exec", "attach"].into_iter().find(|known| command == format!("kubectl {known}"))?;
    if !info.group.is_empty() || info.resource != "pods" {
        return None;
    }
    let target = if info.name.is_empty() { "TYPE/NAME" } else { info.name.as_str() };
    let namespace = if info.namespace.is_empty() { String::new() } else { format!(" -n {}", info.namespace) };
    let message = format!(
        "the control plane runs no pods, its member clusters do: use `flotilla {command} {target}{namespace}`, which finds \
         the cluster (or `kubectl karmada {command}`)"
    );
    Some(Status::new(404, "NotFound", message))
}

#[cfg(test)]
mod tests {
    use object::GroupVersionResource;
    use object::request::Verb;

    use super::*;

    #[test]
    fn commands_that_need_a_running_pod_fail_with_the_command_that_works() {
        let check = |group: &str, resource: &str, name: &str, command: &str, expected: Option<&str>| {
            let on = RequestInfo::on(GroupVersionResource::new(group, "v1", resource), Verb::List);
            let info = RequestInfo { namespace: "shop".to_owned(), name: name.to_owned(), ..on };
            let message = rejection(&info, command).map(|status| status.message);
            match expected {
                None => assert_eq!(message, None, "{command} {resource}"),
                Some(text) => assert!(message.as_ref().is_some_and(|found| found.contains(text)), "{message:?}"),
            }
        };
        check("", "pods", "web-1", "kubectl logs", Some("`flotilla logs web-1 -n shop`"));
        check("", "pods", "", "kubectl logs", Some("`flotilla logs TYPE/NAME -n shop`"));
        check("", "pods", "", "kubectl exec", Some("`flotilla exec TYPE/NAME -n shop`"));
        check("", "pods", "", "kubectl attach", Some("kubectl karmada attach"));
        check("", "pods", "web-1", "kubectl get", None);
        check("apps", "deployments", "web", "kubectl logs", None);
        check("cluster.karmada.io", "clusters", "m1", "kubectl logs", None);
        check("metrics.k8s.io", "pods", "", "kubectl logs", None);
    }
}
