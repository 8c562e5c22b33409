//! Ending safe mode needs a right of its own.

#[path = "../../apiserver/tests/admission_world/mod.rs"]
mod admission_world;

use admission_world::World;
use plane_api::safe_mode::SafeModeConfirm;
use plane_state::SafeMode;
use serde_json::{Value, json};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const CONFIRM: &str = "/flotilla/v1alpha1/safe-mode/confirm";

#[tokio::test]
async fn a_right_to_all_paths_of_the_plane_does_not_end_safe_mode() {
    let cases: [(&[&str], &[&str], u16); 6] = [
        (&["/flotilla/v1alpha1/*"], &["get", "post"], 403),
        (&["/flotilla/*"], &["post"], 403),
        (&[CONFIRM], &["post"], 403),
        (&[CONFIRM], &["confirm"], 403),
        (&[CONFIRM], &["post", "confirm"], 200),
        (&["*"], &["*"], 200),
    ];
    for (paths, verbs, expected) in cases {
        let mode = SafeMode::unknown();
        mode.set(true);
        let world = World::extended(vec![Box::new(SafeModeConfirm { mode: mode.clone() })]).await;
        let rule = json!({"nonResourceURLs": paths, "verbs": verbs});
        world.make(&format!("{RBAC}/clusterroles"), json!({"metadata": {"name": "r"}, "rules": [rule]})).await;
        let binding = json!({"metadata": {"name": "r"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}]});
        world.make(&format!("{RBAC}/clusterrolebindings"), binding).await;
        let reply = world.ask_as("bob", "POST", CONFIRM, Value::Null).await;
        assert_eq!(reply.code, expected, "{paths:?} {verbs:?}: {}", reply.body);
        assert_eq!(mode.is_on(), expected != 200, "{paths:?} {verbs:?}");
    }
}
