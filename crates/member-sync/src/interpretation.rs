//! Keeps the interpreter current with the customizations of the control plane, wherever it is asked from.

use std::sync::Arc;

use api::config::{INTERPRETER_CUSTOMIZATIONS, INTERPRETER_WEBHOOKS};
use api::features::Features;
use cluster_client::ClusterClient;
use interpreter::Interpreter;
use interpreter_runtime::{SharedInterpreter, WebhookCaller, environment};
use reconcile::{Clock, Mirror, MirrorSpec};
use tokio_util::sync::CancellationToken;

/// Reads all customizations, and goes on reading them as they change until cancelled.
pub async fn follow(
    plane: ClusterClient,
    caller: Arc<dyn WebhookCaller>,
    features: Arc<Features>,
    clock: Arc<dyn Clock>,
    cancel: CancellationToken,
) -> SharedInterpreter {
    let mirror =
        |resource: api::Resource| Mirror::start(plane.clone(), MirrorSpec::new(&resource.gvr()), cancel.clone());
    let (customizations, webhooks) = (mirror(INTERPRETER_CUSTOMIZATIONS), mirror(INTERPRETER_WEBHOOKS));
    tokio::select! {
        () = cancel.cancelled() => {}
        () = async { customizations.synced().await; webhooks.synced().await } => {}
    }
    let scripts = environment::system();
    let read = move |customizations: &Mirror, webhooks: &Mirror| {
        Interpreter::new(&customizations.list(), &webhooks.list(), &features, &scripts)
    };
    let shared = SharedInterpreter::new(read(&customizations, &webhooks), caller, clock);
    let kept = shared.clone();
    tokio::spawn(async move {
        let (mut of_customizations, mut of_webhooks) = (customizations.subscribe(), webhooks.subscribe());
        loop {
            let change = tokio::select! {
                () = cancel.cancelled() => return,
                change = of_customizations.next() => change,
                change = of_webhooks.next() => change,
            };
            match change {
                Some(change) if change.is_initial => {}
                Some(_) => kept.replace(read(&customizations, &webhooks)),
                None => return,
            }
        }
    });
    shared
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use api::features::Features;
    use async_trait::async_trait;
    use cluster_client::testing::MemoryApi;
    use interpreter::question::{Health, Replicas};
    use interpreter_runtime::WebhookCall;
    use object::Object;
    use reconcile::SystemClock;
    use serde_json::{Value, json};

    use super::*;

    /// Calls nothing.
    struct Unused;

    #[async_trait]
    impl WebhookCaller for Unused {
        async fn call(&self, call: WebhookCall) -> Result<Value, String> {
            Err(call.webhook)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_interpreter_follows_feature_gates_and_customizations() {
        let api = MemoryApi::default();
        let features = Arc::new(Features { resource_quota_estimate: true, ..Features::default() });
        let (cancel, clock) = (CancellationToken::new(), Arc::new(SystemClock));
        let shared = follow(api.client(), Arc::new(Unused), features, clock, cancel.clone()).await;
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "spec": {"nodeSelector": {"a": "b"}, "priorityClassName": "high"}});
        let pod = Object::from_value(pod).expect("a map");
        let (_, requirements) = shared.load().ask(Replicas(&pod)).await.expect("replicas");
        assert_eq!(requirements.expect("some").priority_class_name, "high");

        let mut rules = INTERPRETER_CUSTOMIZATIONS.object("", "sick");
        rules.set(
            &["spec"],
            json!({"target": {"apiVersion": "v1", "kind": "Pod"}, "customizations":
            {"healthInterpretation": {"luaScript": "function InterpretHealth(o) error('customized') end"}}}),
        );
        api.seed(&INTERPRETER_CUSTOMIZATIONS.gvr(), rules);
        let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
        loop {
            match shared.load().ask(Health(&pod)).await {
                Err(error) if error.0.ends_with("customized") => break,
                other => assert!(tokio::time::Instant::now() < deadline, "{other:?}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        cancel.cancel();
    }
}
