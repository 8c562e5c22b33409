//! `clusters/*/proxy`: one response from all members, where the request allows it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use apiserver::forwarding;
use apiserver::limits::Reservation;
use apiserver::request::RequestInfo;
use apiserver::respond::{self, Body};
use apiserver::server::Server;
use apiserver::subresource::ConnectRequest;
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use http::{HeaderMap, HeaderValue, Method, Response, header};
use http_body_util::BodyExt;
use object::Status;
use object::request::Verb;
use parking_lot::Mutex;
use serde_json::value::RawValue;

use super::member::{self, ProxiedMember};
use super::tunnels::Tunnels;

/// Concurrent requests to members.
const MEMBERS_AT_ONCE: usize = 16;
/// Maximum size of the responses of all members to one request.
const ANSWERS_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Maximum time of a member to answer; one that is late is left out.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);

/// The memory of the responses to one request, which counts as the caller's.
struct Budget<'a> {
    server: &'a Server,
    held: Mutex<(Reservation, usize)>,
}

impl<'a> Budget<'a> {
    fn begin(server: &'a Server, request: &ConnectRequest) -> Result<Self, Status> {
        let reservation = server.reserve(&request.user, 0)?;
        Ok(Self { server, held: Mutex::new((reservation, 0)) })
    }

    fn take(&self, bytes: usize) -> Result<(), Status> {
        let mut held = self.held.lock();
        held.1 += bytes;
        if held.1 > ANSWERS_BYTES_MAX {
            let text =
                format!("the members answer with more than {ANSWERS_BYTES_MAX} bytes: name a namespace or a cluster");
            return Err(Status::too_large(text));
        }
        let total = held.1;
        self.server.grow(&mut held.0, total)
    }
}

/// The reason for which a member has no part in the response.
enum Unanswered {
    /// It cannot be reached, or answers something else.
    LeftOut(Status),
    /// The request needs too much memory.
    Refused(Status),
}

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
    let budget = Budget::begin(server, &request)?;
    let answers = ask_all(server, tunnels, &probe, &request, &budget).await?;
    if !info.name.is_empty() {
        return one(answers, path, request).await;
    }
    Ok(respond::json(200, merge(answers.iter().map(|answer| &answer.body[..]))?))
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
    budget: &Budget<'_>,
) -> Result<Vec<Answer>, Status> {
    let names = member::names(server).await?;
    let asked = futures::stream::iter(names).map(|name| async move {
        let answered = tokio::time::timeout(ANSWER_TIME_MAX, ask(server, tunnels, &name, path, request, budget)).await;
        let late = || Unanswered::LeftOut(Status::timeout("it did not answer in time"));
        (name, answered.unwrap_or_else(|_| Err(late())))
    });
    let mut asked = asked.buffer_unordered(MEMBERS_AT_ONCE);
    let mut answers = Vec::new();
    while let Some((name, answered)) = asked.next().await {
        match answered {
            Ok(answer) if answer.code == 200 => answers.push(answer),
            Ok(_) => {}
            Err(Unanswered::LeftOut(error)) => tracing::debug!(cluster = name, %error, "a member did not answer"),
            Err(Unanswered::Refused(status)) => return Err(status),
        }
    }
    answers.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(answers)
}

async fn ask(
    server: &Server,
    tunnels: &Tunnels,
    name: &str,
    path: &str,
    request: &ConnectRequest,
    budget: &Budget<'_>,
) -> Result<Answer, Unanswered> {
    let member = member::find(server, tunnels, name).await.map_err(Unanswered::LeftOut)?;
    let mut headers = member.headers(&HeaderMap::new(), &request.user, false).map_err(Unanswered::LeftOut)?;
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    let response = member.send(Method::GET, path, headers, forwarding::whole(Bytes::new())).await;
    let response = response.map_err(Unanswered::LeftOut)?;
    let code = response.status().as_u16();
    let (mut arriving, mut body) = (response.into_body(), BytesMut::new());
    while let Some(frame) = arriving.frame().await {
        let frame = frame.map_err(|error| Unanswered::LeftOut(Status::unavailable(error.to_string())))?;
        if let Some(data) = frame.data_ref() {
            budget.take(data.len()).map_err(Unanswered::Refused)?;
            body.extend_from_slice(data);
        }
    }
    Ok(Answer { member, name: name.to_owned(), code, body: body.freeze() })
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

/// The fields of a list, unread: reading millions of small items would take many times their size.
type RawList<'a> = BTreeMap<&'a str, &'a RawValue>;

/// Merges lists into one. What is no list is left out.
fn merge<'a>(bodies: impl Iterator<Item = &'a [u8]>) -> Result<Vec<u8>, Status> {
    let lists = bodies.filter_map(|body| serde_json::from_slice::<RawList<'_>>(body).ok());
    let mut merged: Option<(RawList<'_>, Vec<u8>)> = None;
    for mut list in lists {
        let Some(items) = list.remove("items").and_then(items_of) else { continue };
        let (_, all) = merged.get_or_insert_with(|| (list, Vec::new()));
        if !all.is_empty() && !items.is_empty() {
            all.push(b',');
        }
        all.extend_from_slice(items.as_bytes());
    }
    let (head, items) = merged.ok_or_else(|| Status::new(404, "NotFound", "not found"))?;
    let mut out = Vec::with_capacity(items.len() + 256);
    for (name, value) in head.iter().filter(|(name, _)| **name != "metadata") {
        let name = serde_json::to_string(name).map_err(Status::internal)?;
        out.extend_from_slice(if out.is_empty() { b"{" } else { b"," });
        out.extend_from_slice(format!("{name}:{}", value.get()).as_bytes());
    }
    out.extend_from_slice(if out.is_empty() { b"{" } else { b"," });
    // The resource version of one member is not valid for the others.
    out.extend_from_slice(b"\"metadata\":{},\"items\":[");
    out.extend_from_slice(&items);
    out.extend_from_slice(b"]}");
    Ok(out)
}

/// The text between the brackets of a JSON array; empty for `null`.
fn items_of(items: &RawValue) -> Option<&str> {
    match items.get() {
        "null" => Some(""),
        text => text.strip_prefix('[')?.strip_suffix(']').map(str::trim),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(bodies: &[&str], expected: Option<Value>) {
        let merged = merge(bodies.iter().map(|body| body.as_bytes())).ok();
        let merged = merged.map(|bytes| serde_json::from_slice::<Value>(&bytes).expect("JSON"));
        assert_eq!(merged, expected, "{bodies:?}");
    }

    #[test]
    fn lists_of_members_become_one() {
        let list = |items: Value| json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items});
        let one =
            r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[ {"a":1} , {"a":2}]}"#;
        let none = r#"{"kind":"PodList","apiVersion":"v1","items":null}"#;
        let other = r#"{"kind":"PodList","apiVersion":"v1","items":[{"a":3}]}"#;
        check(&[one], Some(list(json!([{"a": 1}, {"a": 2}]))));
        check(&[none, one, none, other], Some(list(json!([{"a": 1}, {"a": 2}, {"a": 3}]))));
        check(&[none], Some(list(json!([]))));
        check(&[r#"{"items":[]}"#], Some(json!({"metadata": {}, "items": []})));
        check(&[], None);
    }

    #[test]
    fn a_member_that_answers_no_list_does_not_spoil_those_of_others() {
        let good = r#"{"kind":"PodList","items":[1]}"#;
        for bad in ["", "x", "[]", r#"{"items":"x"}"#, r#"{"items":[}"#, r#"{"kind":"Status"}"#] {
            check(&[bad, good], Some(json!({"kind": "PodList", "metadata": {}, "items": [1]})));
        }
    }
}
