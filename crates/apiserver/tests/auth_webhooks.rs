//! Webhooks that identify and authorize callers.

mod admission_world;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use admission_world::{Answer, CONFIGMAPS, Webhooks, World};
use apiserver::auth::Authorizer;
use apiserver::auth::structured::read_authorization;
use apiserver::auth::webhook::{AccessWebhook, AccessWebhookSettings, TokenWebhook, WebhookEndpoint};
use serde_json::{Value, json};

const KEPT: Duration = Duration::from_secs(60);

fn endpoint(hooks: &Webhooks, name: &str) -> WebhookEndpoint {
    WebhookEndpoint::of_kubeconfig(&hooks.kubeconfig(name), Path::new(".")).expect("a kubeconfig")
}

fn status(status: Value) -> Answer {
    Answer::Sends(json!({"status": status}))
}

#[tokio::test]
async fn unknown_tokens_are_sent_to_the_webhook() {
    let hooks = Webhooks::start().await;
    let user = json!({"username": "eve", "groups": ["system:masters"]});
    hooks.answers("token", status(json!({"authenticated": true, "user": user})));
    let world =
        World::judged_by(Some(TokenWebhook::new(endpoint(&hooks, "token"), KEPT)), vec![Authorizer::Rbac]).await;
    let whoami = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let reply = world.ask_as("from-elsewhere", "POST", whoami, json!({})).await;
    let info = &reply.body["status"]["userInfo"];
    assert_eq!(
        (info["username"].as_str(), &info["groups"]),
        (Some("eve"), &json!(["system:masters", "system:authenticated"]))
    );
    world.ask_as("from-elsewhere", "POST", whoami, json!({})).await;
    assert_eq!(hooks.asked("token"), 1, "answers are kept");
    assert_eq!(world.ask_as("bob", "POST", whoami, json!({})).await.code, 403, "bob is known, and has no role");
    assert_eq!(hooks.asked("token"), 1, "tokens known here are not sent elsewhere");
    hooks.answers("token", status(json!({"authenticated": false})));
    for _ in 0..3 {
        assert_eq!(world.ask_as("unknown", "POST", whoami, json!({})).await.code, 401);
    }
    assert_eq!(hooks.asked("token"), 2, "refusals are kept too");
    hooks.answers("token", Answer::Code(500, "no"));
    assert_eq!(
        world.ask_as("another", "POST", whoami, json!({})).await.code,
        401,
        "a failing webhook lets no caller in"
    );
}

#[derive(Clone, Copy, Debug)]
enum AuthorizerName {
    Rbac,
    Webhook,
}

/// Asks for configmaps as bob, who has no role.
async fn check(order: [AuthorizerName; 2], answer: Answer, code: u16) {
    let hooks = Webhooks::start().await;
    hooks.answers("access", answer);
    let settings = AccessWebhookSettings::keeping(KEPT, KEPT);
    let webhook = Arc::new(AccessWebhook::new(endpoint(&hooks, "access"), settings));
    let authorizer = |name| match name {
        AuthorizerName::Rbac => Authorizer::Rbac,
        AuthorizerName::Webhook => Authorizer::Webhook(webhook.clone()),
    };
    let world = World::judged_by(None, order.map(authorizer).to_vec()).await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let rules = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}]);
    world.make(&format!("{rbac}/clusterroles"), json!({"metadata": {"name": "r"}, "rules": rules})).await;
    world
        .make(
            &format!("{rbac}/clusterrolebindings"),
            json!({"metadata": {"name": "r"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}]}),
        )
        .await;
    for _ in 0..2 {
        let reply = world.ask_as("bob", "GET", CONFIGMAPS, Value::Null).await;
        assert_eq!(reply.code, code, "{order:?}: {}", reply.body);
    }
    let allowed_by_role = world.ask_as("bob", "GET", "/api/v1/namespaces/team/secrets", Value::Null).await.code;
    assert_eq!(allowed_by_role, 200, "{order:?}");
}

#[tokio::test]
async fn authorizers_are_called_in_order() {
    use AuthorizerName::{Rbac, Webhook};
    for order in [[Rbac, Webhook], [Webhook, Rbac]] {
        check(order, status(json!({"allowed": true})), 200).await;
        check(order, status(json!({"allowed": false})), 403).await;
        check(order, Answer::Code(500, "no"), 403).await;
    }
    check([Rbac, Webhook], status(json!({"allowed": false, "denied": true})), 403).await;
}

#[test]
fn kubeconfigs_that_cannot_be_used_are_refused() {
    let directory = Path::new(".");
    for (text, problem) in [
        ("a: [", "not a kubeconfig"),
        ("clusters: []", "has no clusters[].cluster.server"),
        ("clusters: [{name: c, cluster: {server: 'http://x'}}]", "not an https URL"),
        (
            "clusters: [{name: c, cluster: {server: 'https://x', certificate-authority: /nowhere}}]",
            "certificate-authority cannot be read",
        ),
    ] {
        let error = WebhookEndpoint::of_kubeconfig(text, directory).err().expect("refused").to_string();
        assert!(error.contains(problem), "{text}: {error}");
    }
}

/// Writes a kubeconfig for each webhook and returns the authorizers of a configuration with `authorizers`.
fn configured(hooks: &Webhooks, authorizers: &str) -> Result<Vec<Authorizer>, String> {
    let directory = std::env::temp_dir().join(format!("authorization-{}", uuid::Uuid::new_v4()));
    std::fs::create_dir(&directory).expect("a directory");
    for name in ["first", "second"] {
        std::fs::write(directory.join(name), hooks.kubeconfig(name)).expect("written");
    }
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers:\n{}",
        authorizers.replace("DIR", &directory.display().to_string())
    );
    let read = read_authorization(&text).map_err(|error| error.to_string());
    std::fs::remove_dir_all(&directory).expect("removed");
    read
}

const RBAC: &str = "- {type: RBAC, name: rbac}\n";

fn webhook(name: &str, rest: &str) -> String {
    format!(
        "- {{type: Webhook, name: {name}, webhook: {{timeout: 3s, subjectAccessReviewVersion: v1, \
         connectionInfo: {{type: KubeConfigFile, kubeConfigFile: DIR/{name}}}, {rest}}}}}\n"
    )
}

/// Asks as bob, who has no role, and returns the code and how often each webhook was asked.
async fn judged(authorizers: &str, answers: [Answer; 2]) -> (u16, usize, usize) {
    let hooks = Webhooks::start().await;
    for (name, answer) in ["first", "second"].into_iter().zip(answers) {
        hooks.answers(name, answer);
    }
    let world = World::judged_by(None, configured(&hooks, authorizers).expect("valid")).await;
    let code = world.ask_as("bob", "GET", CONFIGMAPS, Value::Null).await.code;
    (code, hooks.asked("first"), hooks.asked("second"))
}

#[tokio::test]
async fn webhooks_of_a_configuration_have_conditions_and_a_failure_policy() {
    let (yes, no) = (|| status(json!({"allowed": true})), || status(json!({"allowed": false, "denied": true})));
    let fails = || Answer::Code(500, "no");
    let conditions = |expression: &str| {
        format!(
            "failurePolicy: Deny, matchConditionSubjectAccessReviewVersion: v1, \
             matchConditions: [{{expression: \"{expression}\"}}]"
        )
    };
    let both = |first: &str, second: &str| format!("{}{}{RBAC}", webhook("first", first), webhook("second", second));
    let open = "failurePolicy: NoOpinion";
    for (first, answers, expected) in [
        (open.to_owned(), [yes(), yes()], (200, 1, 0)),
        (open.to_owned(), [no(), yes()], (403, 1, 0)),
        (open.to_owned(), [fails(), yes()], (200, 1, 1)),
        ("failurePolicy: Deny".to_owned(), [fails(), yes()], (403, 1, 0)),
        (conditions("request.user == 'bob'"), [no(), yes()], (403, 1, 0)),
        (conditions("request.user == 'eve'"), [no(), yes()], (200, 0, 1)),
        (conditions("request.resourceAttributes.namespace == 'team'"), [no(), yes()], (403, 1, 0)),
        (conditions("has(request.nonResourceAttributes)"), [no(), yes()], (200, 0, 1)),
        // A condition that cannot be evaluated is a failure.
        (conditions("request.extra['team'].size() > 0"), [yes(), yes()], (403, 0, 0)),
    ] {
        assert_eq!(judged(&both(&first, open), answers).await, expected, "{first}");
    }
}

#[tokio::test]
async fn authorization_configurations_with_errors_are_refused_with_the_field() {
    let hooks = Webhooks::start().await;
    for (authorizers, problem) in [
        (webhook("first", "failurePolicy: Deny"), "authorizers: RBAC is required"),
        (format!("{RBAC}{RBAC}"), "authorizers[1].type: \"RBAC\" occurs twice"),
        (format!("{RBAC}- {{type: ABAC, name: abac}}"), "authorizers[1].type: \"ABAC\" must be RBAC or Webhook"),
        (format!("{RBAC}- {{type: Webhook, name: Bad_Name}}"), "authorizers[1].name"),
        (format!("{RBAC}- {{type: Webhook, name: w}}"), "authorizers[1].webhook: is required"),
        (webhook("first", "failurePolicy: Maybe"), "failurePolicy: \"Maybe\" must be NoOpinion or Deny"),
        (webhook("missing", "failurePolicy: Deny"), "connectionInfo.kubeConfigFile"),
        (webhook("first", "failurePolicy: Deny, authorizedTTL: soon"), "authorizedTTL: \"soon\" must be a duration"),
        (webhook("first", "failurePolicy: Deny, matchConditions: [{expression: 'true'}]"), "AccessReviewVersion"),
        (
            webhook(
                "first",
                "failurePolicy: Deny, matchConditionSubjectAccessReviewVersion: v1, \
                 matchConditions: [{expression: request.user}]",
            ),
            "matchConditions[0].expression: must evaluate to bool",
        ),
        (webhook("first", "failurePolicy: Deny, retries: 3"), "unknown field `retries`"),
    ] {
        let error = configured(&hooks, &authorizers).err().unwrap_or_default();
        assert!(error.contains(problem), "{authorizers}\n{problem:?} is not in {error:?}");
    }
}
