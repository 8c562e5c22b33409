//! Serves the recorded steps of one propagation to callers with read access to its template.

use std::sync::Arc;

use api::names::binding_name;
use apiserver::activity::{ActivityEntry, ActivityFilter, ENTRIES_MAX};
use apiserver::extension::{EXTENSIONS_PATH, Extension, ExtensionRequest};
use apiserver::respond::{self, Body};
use apiserver::server::Server;
use async_trait::async_trait;
use cluster_client::ApiResource;
use explain::{Explainer, Subject};
use http::{Method, Response};
use object::{Object, Status};
use plane_state::Propagations;
use plane_state::propagations::{PropagationStep, StepKind};
use serde_json::json;

use crate::explaining::authorized_subject;

const PATH: &str = "v1alpha1/timeline";

/// Answers with the steps since the components of this process started, oldest first. They name the clusters of the object and
/// what those report, as its status does; authors of the template are not named.
pub struct PropagationTimeline {
    pub explainer: Arc<Explainer>,
    pub propagations: Propagations,
}

#[async_trait]
impl Extension for PropagationTimeline {
    fn handles(&self, path: &str) -> bool {
        path.strip_prefix(EXTENSIONS_PATH) == Some(PATH)
    }

    async fn serve(&self, server: &Arc<Server>, request: ExtensionRequest) -> Result<Response<Body>, Status> {
        if request.incoming.method != Method::GET {
            return Err(Status::new(405, "MethodNotAllowed", "read a timeline with GET"));
        }
        let (subject, resource) = authorized_subject(&self.explainer, server, &request).await?;
        let Some(template) = self.explainer.find_template(&subject).await? else {
            return Err(Status::not_found(&resource.gvr.group_resource(), &subject.name));
        };
        let mut steps = writes(server, &subject, &resource, &template);
        let name = binding_name(&subject.kind, &subject.name);
        steps.extend(self.propagations.steps(&match subject.namespace.as_str() {
            "" => name,
            namespace => format!("{namespace}/{name}"),
        }));
        steps.sort_by_key(|step| step.time);
        let answer = json!({"subject": subject, "created": template.creation_timestamp(), "steps": steps});
        Ok(respond::value(200, &answer))
    }
}

/// The latest requests that changed the template, from before its propagation.
fn writes(server: &Server, subject: &Subject, resource: &ApiResource, template: &Object) -> Vec<PropagationStep> {
    let filter = ActivityFilter {
        namespace: subject.namespace.clone(),
        resource: resource.gvr.resource.clone(),
        name: subject.name.clone(),
        limit: ENTRIES_MAX,
        ..ActivityFilter::default()
    };
    let (entries, _) = server.activity.latest(&filter);
    let own = entries.iter().filter(|entry| {
        entry.group == resource.gvr.group && entry.code < 300 && ["create", "update", "patch"].contains(&entry.verb)
    });
    // Requests for an earlier object of the same name do not belong to this one.
    let created = object::time::parse(template.creation_timestamp());
    own.flat_map(times).filter(|step| created.is_none_or(|created| step.time >= created)).collect()
}

/// Equal requests are one entry: the first and the latest are known.
fn times(entry: &ActivityEntry) -> Vec<PropagationStep> {
    let mut times = vec![entry.time.as_str()];
    if entry.count > 1 {
        times.push(&entry.last_time);
    }
    let verb = match entry.subresource.as_str() {
        "" => entry.verb.to_owned(),
        subresource => format!("{} {subresource}", entry.verb),
    };
    let step = |time| PropagationStep::new(time, StepKind::TemplateWritten).saying(&verb);
    times.into_iter().filter_map(object::time::parse).map(step).collect()
}
