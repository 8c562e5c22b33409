//! Calls of webhooks: only where one answers, at the same time, and each with a deadline.

use std::time::Duration;

use async_trait::async_trait;
use interpreter::question::Health;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::*;
use crate::webhooks::WebhookCall;

/// Answers after a time with the object unchanged, and records the calls.
#[derive(Default)]
struct Slow {
    takes: Duration,
    calls: Mutex<Vec<WebhookCall>>,
}

#[async_trait]
impl WebhookCaller for Slow {
    async fn call(&self, call: WebhookCall) -> Result<Value, String> {
        let answer = json!({"response": {"uid": call.body["request"]["uid"], "successful": true, "healthy": true}});
        self.calls.lock().push(call);
        tokio::time::sleep(self.takes).await;
        Ok(answer)
    }
}

fn object(kind: &str) -> Object {
    let value = json!({"apiVersion": "example.io/v1", "kind": kind, "metadata": {"name": "x", "namespace": "ns"}});
    Object::from_value(value).expect("a map")
}

fn interpreter(caller: Arc<Slow>) -> SharedInterpreter {
    let rule = json!({"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "kinds": ["Hooked"]});
    let configuration = json!({"metadata": {"name": "c"}, "webhooks": [{"name": "h", "rules": [rule],
        "interpreterContextVersions": ["v1alpha1"], "clientConfig": {}, "timeoutSeconds": 5}]});
    let webhooks = [Arc::new(Object::from_value(configuration).expect("a map"))];
    let rules = Interpreter::new(&[], &webhooks, &Features::default(), &environment::system());
    SharedInterpreter::new(rules, caller, Arc::new(SystemClock))
}

fn slow(seconds: u64) -> Arc<Slow> {
    Arc::new(Slow { takes: Duration::from_secs(seconds), ..Slow::default() })
}

#[tokio::test(start_paused = true)]
async fn only_questions_for_a_webhook_are_sent_each_with_its_own_id() {
    let caller = slow(0);
    let current = interpreter(Arc::clone(&caller)).load();
    assert_eq!(current.ask(Health(&object("Hooked"))).await, Ok(true));
    assert_eq!(current.ask(Health(&object("Hooked"))).await, Ok(true));
    let error = current.ask(Health(&object("Other"))).await.expect_err("no rule");
    assert!(error.0.contains("not found"), "{error}");
    let calls = caller.calls.lock();
    let uids: Vec<&Value> = calls.iter().map(|call| &call.body["request"]["uid"]).collect();
    assert_eq!(uids.len(), 2);
    assert!(uids[0] != uids[1] && uids[0].as_str().is_some_and(|uid| uid.len() == 36), "{uids:?}");
}

#[tokio::test(start_paused = true)]
async fn many_questions_take_as_long_as_the_slowest() {
    let caller = slow(4);
    let current = interpreter(Arc::clone(&caller)).load();
    let workload = object("Hooked");
    let started = Instant::now();
    let answers = current.fetch_revisions(&workload, (0..20).collect()).await;
    assert_eq!(started.elapsed(), Duration::from_secs(4));
    assert_eq!((answers.len(), caller.calls.lock().len()), (20, 20));
    for (replicas, answer) in &answers {
        let question = ReviseReplicas { object: Cow::Borrowed(&workload), replicas: i64::from(*replicas) };
        let revised = current.rules.answer(question, jiff::Timestamp::UNIX_EPOCH, Some(answer));
        assert_eq!(revised.as_ref(), Ok(&workload));
    }
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_does_not_answer_fails_after_its_deadline() {
    let current = interpreter(slow(3600)).load();
    let started = Instant::now();
    let error = current.ask(Health(&object("Hooked"))).await.expect_err("no answer");
    assert_eq!(started.elapsed(), Duration::from_secs(5));
    assert!(error.0.ends_with("failed to call webhook: webhook c/h did not answer within 5 s"), "{error}");
}
