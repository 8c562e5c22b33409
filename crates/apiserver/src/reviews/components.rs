//! `componentstatuses`: deprecated for years and still listed by old dashboards; the store is the only component.

use std::sync::Arc;

use http::Response;
use object::{Object, Status};
use serde_json::json;

use crate::resources::Resources;
use crate::respond::{self, Body, Format};
use crate::verbs::{Answer, Target};

const STORE: &str = "etcd-0";

pub async fn serve(resources: Resources<'_>, target: &Target, format: Format) -> Result<Response<Body>, Status> {
    let health = resources.objects.store().health().await;
    let (healthy, message) = match &health {
        Ok(()) => ("True", "ok".to_owned()),
        Err(error) => ("False", error.to_string()),
    };
    let mut component = json!({
        "metadata": {"name": STORE},
        "conditions": [{"type": "Healthy", "status": healthy, "message": message}],
    });
    if target.name.is_empty() {
        let list = json!({"apiVersion": "v1", "kind": "ComponentStatusList", "metadata": {}, "items": [component]});
        return Ok(respond::encoded(200, &list, format));
    }
    if target.name != STORE {
        return Err(target.not_found());
    }
    component["apiVersion"] = "v1".into();
    component["kind"] = "ComponentStatus".into();
    let object = Arc::new(Object::from_value(component).expect("written as a map above"));
    respond::object_response(resources, &target.resource, Answer::Object { code: 200, object }, format).await
}
