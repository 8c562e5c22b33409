//! Bindings of a kind whose replicas a webhook revises.

use std::time::Duration;

use api::features::Features;
use async_trait::async_trait;
use interpreter::Interpreter;
use interpreter_runtime::{SharedInterpreter, WebhookCall, WebhookCaller, environment};
use parking_lot::Mutex;
use reconcile::SystemClock;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::*;
use crate::testing::{Stage, object, until};

const TAKES: Duration = Duration::from_secs(10);

/// Takes its time for each call and changes nothing. Fails for seven replicas.
#[derive(Default)]
struct Slow {
    asked: Mutex<Vec<i64>>,
}

#[async_trait]
impl WebhookCaller for Slow {
    async fn call(&self, call: WebhookCall) -> Result<Value, String> {
        let request = &call.body["request"];
        let replicas = request["replicas"].as_i64().unwrap_or(-1);
        self.asked.lock().push(replicas);
        tokio::time::sleep(TAKES).await;
        match replicas {
            7 => Err("no answer for seven".to_owned()),
            _ => Ok(json!({"response": {"uid": request["uid"], "successful": true}})),
        }
    }
}

fn hooked(caller: Arc<Slow>) -> SharedInterpreter {
    let rule = json!({"operations": ["ReviseReplica"], "apiGroups": ["apps"], "apiVersions": ["*"], "kinds": ["*"]});
    let configuration = json!({"metadata": {"name": "c"}, "webhooks": [{"name": "h", "rules": [rule],
        "interpreterContextVersions": ["v1alpha1"], "clientConfig": {}}]});
    let webhooks = [Arc::new(object(configuration))];
    let rules = Interpreter::new(&[], &webhooks, &Features::default(), &environment::system());
    SharedInterpreter::new(rules, caller, Arc::new(SystemClock))
}

#[tokio::test(start_paused = true)]
async fn a_slow_webhook_does_not_serialise_the_members_of_a_binding() {
    let names: Vec<String> = (1..=8).map(|number| format!("m{number}")).collect();
    let mut stage = Stage::new(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let caller = Arc::new(Slow::default());
    stage.interpreter = hooked(Arc::clone(&caller));
    stage.start(run);
    let clusters: Vec<Value> =
        names.iter().enumerate().map(|(index, name)| json!({"name": name, "replicas": 1 + index / 2 * 2})).collect();
    let started = Instant::now();
    stage.put_binding(&stage.put_deployment("web"), json!({"replicas": 32, "clusters": clusters}));
    for name in &names[..6] {
        until(&format!("a work in {name}"), || stage.find_work(name, "web")).await;
    }
    assert!(started.elapsed() < 2 * TAKES, "{:?}", started.elapsed());
    until("an event", || async {
        let events = stage.events_on("ResourceBinding").await;
        let is_reported = |(reason, text): &(String, String)| {
            reason == "SyncWorkFailed" && text.contains("failed to call webhook: no answer for seven")
        };
        events.iter().any(is_reported).then_some(())
    })
    .await;
    assert_eq!(stage.find_work("m8", "web").await, None, "its number of replicas has no answer");
    let mut asked = caller.asked.lock()[..4].to_vec();
    asked.sort_unstable();
    assert_eq!(asked, [1, 3, 5, 7], "each number is asked for once");
}
