//! `metrics.k8s.io`: resource usage of pods and nodes, as reported by the source. Served, never stored.

use std::sync::Arc;

use async_trait::async_trait;
use http::Response;
use kinds::printers::CrdPrinter;
use kinds::{Kind, OwnSchema, Priority, Strategy};
use object::request::Verb;
use object::schema::Schema;
use object::selector::LabelSelector;
use object::{GroupResource, GroupVersionKind, Object, Status};
use serde_json::{Value, json};

use crate::request::ListSelection;
use crate::respond::{self, Body, Format};
use crate::server::Server;
use crate::subresource::{ConnectHandler, ConnectRequest};
use crate::verbs::{Answer, Target};

const GROUP: &str = "metrics.k8s.io";
const VERSION: &str = "v1beta1";
/// As the APIService of Kubernetes' own metrics server says.
const PRIORITY: Priority = Priority { group: 100, version: 100 };

/// Which usages are asked for.
pub struct Asked<'a> {
    /// `None` for all namespaces.
    pub namespace: Option<&'a str>,
    pub name: Option<&'a str>,
    pub labels: Option<&'a LabelSelector>,
}

/// Usages in order, with warnings for the caller.
#[derive(Default)]
pub struct Usages {
    pub items: Vec<Object>,
    pub warnings: Vec<String>,
}

/// A source of usage: `PodMetrics` and `NodeMetrics`.
#[async_trait]
pub trait UsageSource: Send + Sync {
    async fn pods(&self, asked: &Asked<'_>) -> Result<Usages, Status>;
    async fn nodes(&self, asked: &Asked<'_>) -> Result<Usages, Status>;
}

/// Answers for the group's resources out of a source.
pub struct UsageApi {
    pub source: Arc<dyn UsageSource>,
}

#[async_trait]
impl ConnectHandler for UsageApi {
    fn handles(&self, target: &Target) -> bool {
        target.resource.kind.gvk.group == GROUP && target.subresource.is_none()
    }

    async fn connect(&self, server: &Arc<Server>, request: ConnectRequest) -> Result<Response<Body>, Status> {
        let ConnectRequest { target, incoming, .. } = request;
        if !target.resource.kind.allows(incoming.info.verb) {
            return Err(Status::method_not_served());
        }
        let selection = ListSelection::parse(&incoming.query)?;
        let format = Format::for_resource(&target.resource, &incoming.headers, incoming.query.flag("pretty"))?;
        let text = |text: &'_ str| (!text.is_empty()).then(|| text.to_owned());
        let (namespace, name) = (text(&target.namespace), text(&target.name));
        let asked = Asked { namespace: namespace.as_deref(), name: name.as_deref(), labels: Some(&selection.labels) };
        let found = match target.resource.kind.plural.as_str() {
            "pods" => self.source.pods(&asked).await?,
            _ => self.source.nodes(&asked).await?,
        };
        let Usages { items, warnings } = found;
        let mut found: Vec<Arc<Object>> = items.into_iter().map(Arc::new).collect();
        let mut response = if name.is_some() {
            let object = found.pop().ok_or_else(|| target.not_found())?;
            let answer = Answer::Object { code: 200, object };
            respond::object_response(server.resources(), &target.resource, answer, format).await?
        } else {
            respond::objects_response(&target.resource, &found, format, incoming.query.get("includeObject"))?
        };
        respond::add_warnings(&mut response, &warnings);
        Ok(response)
    }
}

/// Kinds to serve in addition to those of Kubernetes where there is a source.
pub fn kinds() -> Vec<Kind> {
    let usage = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let container = json!({"type": "object", "properties": {"name": {"type": "string"}, "usage": usage}});
    let containers = json!({"type": "array", "items": container});
    vec![
        kind("NodeMetrics", "nodes", false, ("usage", usage), &[("cpu", ".usage.cpu"), ("memory", ".usage.memory")]),
        kind(
            "PodMetrics",
            "pods",
            true,
            ("containers", containers),
            &[("cpu", ".containers[*].usage.cpu"), ("memory", ".containers[*].usage.memory")],
        ),
    ]
}

fn kind(name: &str, plural: &str, namespaced: bool, own: (&str, Value), columns: &[(&str, &str)]) -> Kind {
    let gvk = GroupVersionKind::new(GROUP, VERSION, name);
    let text = json!({"type": "string"});
    let mut openapi = json!({"type": "object", "properties": {"apiVersion": text, "kind": text,
        "metadata": {"type": "object"}, "timestamp": {"type": "string", "format": "date-time"}, "window": text}});
    openapi["properties"][own.0] = own.1;
    let columns = columns.iter().chain(&[("window", ".window")]);
    let columns: Value =
        columns.map(|(name, path)| json!({"name": name, "type": "string", "jsonPath": path})).collect();
    Kind {
        list_kind: format!("{name}List"),
        plural: plural.to_owned(),
        singular: String::new(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced,
        storage: gvk.clone(),
        storage_resource: GroupResource::new(GROUP, plural),
        stored: false,
        verbs: vec![Verb::Get, Verb::List],
        subresources: Vec::new(),
        schema: Schema::from_openapi(&openapi).expect("written above, shallow and without references"),
        definition: kinds::openapi::definition_name(GROUP, VERSION, name),
        selectable_fields: Vec::new(),
        strategy: Arc::new(Untouched),
        printer: Arc::new(CrdPrinter::new(&columns)),
        deprecation: None,
        own_schema: Some(OwnSchema { openapi: Arc::new(openapi), priority: PRIORITY, enforced: false }),
        gvk,
    }
}

/// Nothing of these kinds is ever written.
struct Untouched;

impl Strategy for Untouched {}
