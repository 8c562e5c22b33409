//! The token webhook: asks another server whose bearer token it is (`TokenReview`).

use std::time::{Duration, Instant};

use object::request::User;
use serde_json::{Value, json};

use super::WebhookEndpoint;
use super::cached::Cached;
use crate::auth::token::TokenUser;

/// Time for which an unknown token is not asked for again.
const REFUSED_FOR: Duration = Duration::from_secs(10);

pub struct TokenWebhook {
    endpoint: WebhookEndpoint,
    /// Time for which the user of a token is kept.
    known_for: Duration,
    answers: Cached<Option<TokenUser>>,
}

impl TokenWebhook {
    pub fn new(endpoint: WebhookEndpoint, known_for: Duration) -> Self {
        Self { endpoint, known_for, answers: Cached::new() }
    }

    /// `None` when the webhook does not know the token; the error says why it could not be asked.
    pub async fn user(&self, token: &str, audiences: &[String]) -> Result<Option<TokenUser>, String> {
        let question = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
            "spec": {"token": token, "audiences": audiences}});
        let (key, now) = (Cached::<Option<TokenUser>>::key(question.to_string().as_bytes()), Instant::now());
        if let Some(known) = self.answers.get(&key, now) {
            return Ok(known);
        }
        let answer = self.endpoint.ask(&question).await.map_err(|problem| format!("token webhook: {problem}"))?;
        let found = read_answer(&answer, audiences)?;
        let time = if found.is_some() { self.known_for } else { REFUSED_FOR };
        self.answers.keep(key, found.clone(), now, time);
        Ok(found)
    }
}

fn read_answer(answer: &Value, audiences: &[String]) -> Result<Option<TokenUser>, String> {
    let status = &answer["status"];
    if status["authenticated"] != true {
        return match status["error"].as_str().filter(|problem| !problem.is_empty()) {
            Some(problem) => Err(format!("token webhook: {problem}")),
            None => Ok(None),
        };
    }
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let text = |key: &str| status["user"][key].as_str().unwrap_or_default().to_owned();
    let name = text("username");
    if name.is_empty() {
        return Err("token webhook: the answer names no user".to_owned());
    }
    let extra = status["user"]["extra"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, values)| (key.to_lowercase(), texts(values)));
    let user = User { name, uid: text("uid"), groups: texts(&status["user"]["groups"]), extra: extra.collect() };
    // A webhook that does not know about audiences means this server.
    let meant: Vec<String> = match texts(&status["audiences"]) {
        named if named.is_empty() => audiences.to_vec(),
        named => audiences.iter().filter(|audience| named.contains(audience)).cloned().collect(),
    };
    Ok((!meant.is_empty()).then_some(TokenUser { user, audiences: meant }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_name_a_user_for_the_requested_audiences() {
        let wanted = ["api".to_owned()];
        let user = |name: &str| json!({"username": name, "uid": "1", "groups": ["g"], "extra": {"K": ["v"]}});
        let check = |status: Value, expected: Result<Option<&str>, &str>| {
            let found = read_answer(&json!({"status": status}), &wanted);
            let found = found.map(|found| found.map(|found| found.user.name));
            assert_eq!(found, expected.map(|name| name.map(str::to_owned)).map_err(str::to_owned), "{status}");
        };
        check(json!({"authenticated": true, "user": user("bob")}), Ok(Some("bob")));
        check(json!({"authenticated": true, "user": user("bob"), "audiences": ["api", "x"]}), Ok(Some("bob")));
        check(json!({"authenticated": true, "user": user("bob"), "audiences": ["x"]}), Ok(None));
        check(json!({"authenticated": true, "user": user("")}), Err("token webhook: the answer names no user"));
        check(json!({"authenticated": false}), Ok(None));
        check(json!({"authenticated": false, "error": "expired"}), Err("token webhook: expired"));
        check(json!({}), Ok(None));
        let found = read_answer(&json!({"status": {"authenticated": true, "user": user("bob")}}), &wanted);
        let user = found.expect("an answer").expect("a user").user;
        assert_eq!(
            (user.uid.as_str(), &user.groups[..], &user.extra["k"][..]),
            ("1", &["g".to_owned()][..], &["v".to_owned()][..])
        );
    }
}
