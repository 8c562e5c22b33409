//! `clusters/*/proxy`: one response from all members, where the request allows it.

use std::sync::Arc;

use apiserver::forwarding;
use apiserver::request::RequestInfo;
use apiserver::respond::{self, Body};
use apiserver::server::Server;
use apiserver::subresource::ConnectRequest;
use bytes::Bytes;
use futures::StreamExt;
use http::{HeaderMap, HeaderValue, Method, Response, header};
use http_body_util::{BodyExt, Limited};
use object::Status;
use object::request::Verb;
use serde_json::{Value, json};

use super::member::{self, ProxiedMember};
use super::tunnels::Tunnels;

/// Concurrent requests to members.
const MEMBERS_AT_ONCE: usize = 16;
/// Maximum size of a response that is merged.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

struct Answer {
    member: ProxiedMember,
    name: String,
    code: u16,
    body: Bytes,
}

pub async fn serve(
    server: &Arc<Server>,
    tunnels: &Tunnels,
    path: &str,
    request: ConnectRequest,
) -> Result<Response<Body>, Status> {
    let (plain, query) = path.split_once('?').unwrap_or((path, ""));
    let info = RequestInfo::parse(&request.incoming.method, plain, query);
    if !info.is_resource {
        // Requests that are not about objects are handled by this server.
        return super::answer_here(server, path, request.user, request.incoming).await;
    }
    if info.name.is_empty() && info.verb != Verb::List {
        let text = format!("Request verb {} is not support", info.verb);
        return Err(Status::new(405, "MethodNotAllowed", text));
    }
    // The member that has the object receives the request; find it first.
    let probe = if info.name.is_empty() { path.to_owned() } else { object_path(plain, &info) };
    let answers = ask_all(server, tunnels, &probe, &request).await?;
    if info.name.is_empty() { merge(&answers) } else { one(answers, path, request).await }
}

/// Returns the path of the object, without its subresource.
fn object_path(path: &str, info: &RequestInfo) -> String {
    let beyond = match &info.subresource {
        None => String::new(),
        Some(sub) if info.tail.is_empty() => format!("/{sub}"),
        Some(sub) => format!("/{sub}/{}", info.tail),
    };
    path.strip_suffix(&beyond).unwrap_or(path).to_owned()
}

/// Returns the responses with code 200. Unreachable members are left out.
async fn ask_all(
    server: &Arc<Server>,
    tunnels: &Tunnels,
    path: &str,
    request: &ConnectRequest,
) -> Result<Vec<Answer>, Status> {
    let names = member::names(server).await?;
    let asked = futures::stream::iter(names).map(|name| async move {
        let result = ask(server, tunnels, &name, path, request).await;
        result.inspect_err(|error| tracing::debug!(cluster = name, %error, "a member did not answer")).ok()
    });
    let mut answers: Vec<Answer> = asked.buffer_unordered(MEMBERS_AT_ONCE).filter_map(|a| async { a }).collect().await;
    answers.retain(|answer| answer.code == 200);
    answers.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(answers)
}

async fn ask(
    server: &Server,
    tunnels: &Tunnels,
    name: &str,
    path: &str,
    request: &ConnectRequest,
) -> Result<Answer, Status> {
    let member = member::find(server, tunnels, name).await?;
    let mut headers = member.headers(&HeaderMap::new(), &request.user, false)?;
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    let response = member.send(Method::GET, path, headers, forwarding::whole(Bytes::new())).await?;
    let code = response.status().as_u16();
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
    let body = body.map_err(|error| Status::unavailable(error.to_string()))?.to_bytes();
    Ok(Answer { member, name: name.to_owned(), code, body })
}

/// Forwards the request to the only member that has the object.
async fn one(mut answers: Vec<Answer>, path: &str, request: ConnectRequest) -> Result<Response<Body>, Status> {
    if answers.len() > 1 {
        let names: Vec<&str> = answers.iter().map(|answer| answer.name.as_str()).collect();
        let text = format!("conflict resource, exist in more than one cluster: {}", names.join(","));
        return Err(Status::new(409, "Conflict", text));
    }
    let Some(answer) = answers.pop() else {
        return Err(Status::new(404, "NotFound", "resource not found or don't have permission to get it"));
    };
    answer.member.forward(path, &request.user, request.incoming).await
}

/// Merges lists into one.
fn merge(answers: &[Answer]) -> Result<Response<Body>, Status> {
    let mut merged: Option<Value> = None;
    for answer in answers {
        let mut list: Value = serde_json::from_slice(&answer.body).map_err(Status::internal)?;
        let items = list["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
        match merged.as_mut().and_then(|merged| merged["items"].as_array_mut()) {
            Some(all) => all.extend(items),
            None => {
                list["items"] = Value::Array(items);
                // The resource version of one member is not valid for the others.
                list["metadata"] = json!({});
                merged = Some(list);
            }
        }
    }
    let merged = merged.ok_or_else(|| Status::new(404, "NotFound", "not found"))?;
    Ok(respond::value(200, &merged))
}
