//! The latest requests of users that changed something, read a secret, opened a session in a pod or were refused.
//!
//! It is kept in memory and needs no configuration. The audit log has all requests, also those from before a restart.

use std::collections::VecDeque;

use jiff::Timestamp;
use object::request::{Subresource, User, Verb};
use parking_lot::Mutex;
use serde::Serialize;

use crate::http::Peer;
use crate::request::RequestInfo;

/// Requests kept; the oldest goes first.
pub const ENTRIES_MAX: usize = 2_000;
/// Newest entries that a repeated request is compared with.
const REPEATS_WITHIN: usize = 16;
/// Characters kept of texts that a client chooses.
const TEXT_MAX: usize = 256;
/// Resources that components write at fixed intervals.
const ROUTINE: [&str; 5] =
    ["leases", "events", "selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews"];

/// One request, or the latest of several equal ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ActivityEntry {
    /// Time of the first request.
    pub time: String,
    /// Time of the latest one.
    pub last_time: String,
    pub count: u32,
    #[serde(rename = "auditID")]
    pub audit_id: String,
    pub user: String,
    pub groups: Vec<String>,
    pub verb: &'static str,
    pub group: String,
    pub version: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    pub path: String,
    pub code: u16,
    pub source: String,
    pub agent: String,
}

/// The requests to return; an empty field matches all.
#[derive(Clone, Debug, Default)]
pub struct ActivityFilter {
    /// Part of the user, the path, the name or the verb, in any case.
    pub text: String,
    pub user: String,
    pub namespace: String,
    pub resource: String,
    pub name: String,
    pub refused_only: bool,
    pub limit: usize,
}

/// The latest requests of interest.
#[derive(Default)]
pub struct ActivityLog {
    entries: Mutex<VecDeque<ActivityEntry>>,
}

/// A request with its answer.
pub struct AnsweredRequest<'a> {
    pub info: &'a RequestInfo,
    pub user: &'a User,
    pub peer: &'a Peer,
    pub agent: &'a str,
    pub audit_id: &'a str,
    pub code: u16,
}

impl ActivityLog {
    pub fn note(&self, request: &AnsweredRequest<'_>) {
        if !is_of_interest(request.info, request.code) {
            return;
        }
        self.push(entry_of(request, Timestamp::now()));
    }

    fn push(&self, entry: ActivityEntry) {
        let mut entries = self.entries.lock();
        let newest = entries.len().saturating_sub(REPEATS_WITHIN);
        let same = entries.range(newest..).position(|known| known.repeats(&entry));
        if let Some(former) = same.and_then(|at| entries.remove(newest + at)) {
            let count = former.count.saturating_add(1);
            entries.push_back(ActivityEntry { time: former.time, count, ..entry });
            return;
        }
        if entries.len() >= ENTRIES_MAX {
            entries.pop_front();
        }
        entries.push_back(entry);
    }

    /// The newest entries first, and whether there are more that match.
    pub fn latest(&self, filter: &ActivityFilter) -> (Vec<ActivityEntry>, bool) {
        let entries = self.entries.lock();
        let mut found = entries.iter().rev().filter(|entry| filter.matches(entry));
        let page: Vec<ActivityEntry> = found.by_ref().take(filter.limit).cloned().collect();
        (page, found.next().is_some())
    }
}

impl ActivityEntry {
    fn repeats(&self, next: &Self) -> bool {
        // The path first: it differs most often.
        self.path == next.path
            && self.verb == next.verb
            && self.code == next.code
            && self.user == next.user
            && self.source == next.source
    }
}

impl ActivityFilter {
    fn matches(&self, entry: &ActivityEntry) -> bool {
        let is = |wanted: &str, value: &str| wanted.is_empty() || wanted == value;
        let text = self.text.to_lowercase();
        let has = |value: &str| value.to_lowercase().contains(&text);
        is(&self.user, &entry.user)
            && is(&self.namespace, &entry.namespace)
            && is(&self.resource, &entry.resource)
            && is(&self.name, &entry.name)
            && (!self.refused_only || entry.code >= 400)
            && [entry.user.as_str(), &entry.path, &entry.name, entry.verb, &entry.subresource].into_iter().any(has)
    }
}

/// Writes that are not routine, reads of secrets, connections to pods and to members, and what was refused.
fn is_of_interest(info: &RequestInfo, code: u16) -> bool {
    if !info.is_resource {
        return false;
    }
    let subresource = Subresource::name_of(info.subresource.as_ref());
    let is_routine = ROUTINE.contains(&info.resource.as_str()) || subresource == "status";
    if is_routine {
        return false;
    }
    let is_write =
        matches!(info.verb, Verb::Create | Verb::Update | Verb::Patch | Verb::Delete | Verb::DeleteCollection);
    let is_connection = matches!(subresource, "exec" | "attach" | "portforward")
        || (subresource == "proxy" && ["/exec", "/attach", "/portforward"].iter().any(|end| info.tail.ends_with(end)));
    let reads_secrets = info.resource == "secrets" && info.group.is_empty() && !info.name.is_empty();
    is_write || is_connection || reads_secrets || matches!(code, 401 | 403)
}

fn entry_of(request: &AnsweredRequest<'_>, now: Timestamp) -> ActivityEntry {
    let now = object::time::format_micros(now);
    let AnsweredRequest { info, user, peer, agent, audit_id, code } = *request;
    let short = |text: &str| match text.len() <= TEXT_MAX {
        true => text.to_owned(),
        false => text.chars().take(TEXT_MAX).collect(),
    };
    ActivityEntry {
        time: now.clone(),
        last_time: now,
        count: 1,
        audit_id: short(audit_id),
        user: short(&user.name),
        groups: user.groups.iter().take(20).map(|group| short(group)).collect(),
        verb: info.verb.as_str(),
        group: short(&info.group),
        version: short(&info.version),
        resource: short(&info.resource),
        subresource: short(Subresource::name_of(info.subresource.as_ref())),
        namespace: short(&info.namespace),
        name: short(&info.name),
        path: short(&info.path),
        code,
        source: peer.address.ip().to_string(),
        agent: short(agent),
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    fn entry(user: &str, path: &str, code: u16) -> ActivityEntry {
        let info = RequestInfo::parse(&Method::PUT, path, "");
        let peer = Peer { address: ([127, 0, 0, 1], 9).into(), certificates: Vec::new(), server_name: None };
        let user = User::new(user, &[]);
        let request = AnsweredRequest { info: &info, user: &user, peer: &peer, agent: "kubectl", audit_id: "id", code };
        entry_of(&request, Timestamp::UNIX_EPOCH)
    }

    #[track_caller]
    fn check(method: &Method, path: &str, code: u16, expected: bool) {
        let info = RequestInfo::parse(method, path, "");
        assert_eq!(is_of_interest(&info, code), expected, "{method} {path} {code}");
    }

    #[test]
    fn changes_secrets_connections_and_refusals_are_recorded() {
        check(&Method::POST, "/api/v1/namespaces/a/configmaps", 201, true);
        check(&Method::GET, "/api/v1/namespaces/a/configmaps/b", 200, false);
        check(&Method::GET, "/api/v1/namespaces/a/configmaps/b", 403, true);
        check(&Method::GET, "/api/v1/namespaces/a/secrets/b", 200, true);
        check(&Method::GET, "/api/v1/namespaces/a/secrets", 200, false);
        check(&Method::GET, "/api/v1/namespaces/a/pods/b/exec", 101, true);
        check(&Method::PUT, "/apis/coordination.k8s.io/v1/namespaces/a/leases/b", 200, false);
        check(&Method::PUT, "/apis/work.karmada.io/v1alpha1/namespaces/a/works/b/status", 200, false);
        check(&Method::GET, "/metrics", 403, false);
    }

    #[test]
    fn repeated_requests_are_one_entry_and_the_oldest_is_dropped() {
        let log = ActivityLog::default();
        let all = ActivityFilter { limit: usize::MAX, ..ActivityFilter::default() };
        for _ in 0..5 {
            log.push(entry("ann", "/api/v1/namespaces/a/configmaps/x", 409));
            log.push(entry("ann", "/api/v1/namespaces/a/configmaps/y", 200));
        }
        let (found, has_more) = log.latest(&all);
        let shown: Vec<(&str, u32)> = found.iter().map(|entry| (entry.name.as_str(), entry.count)).collect();
        assert_eq!((shown, has_more), (vec![("y", 5), ("x", 5)], false));
        for number in 0..ENTRIES_MAX {
            log.push(entry("bob", &format!("/api/v1/namespaces/a/configmaps/c{number}"), 200));
        }
        let (found, _) = log.latest(&all);
        assert_eq!(found.len(), ENTRIES_MAX);
        assert!(found.iter().all(|entry| entry.user == "bob") && found[0].name == format!("c{}", ENTRIES_MAX - 1));
    }

    #[test]
    fn filters_select_entries_and_limit_the_page() {
        let log = ActivityLog::default();
        for (user, path, code) in [
            ("ann", "/api/v1/namespaces/a/configmaps/x", 200),
            ("ann", "/apis/apps/v1/namespaces/b/deployments/web", 403),
            ("bob", "/apis/apps/v1/namespaces/b/deployments/db", 200),
        ] {
            log.push(entry(user, path, code));
        }
        let names = |filter: ActivityFilter| -> Vec<String> {
            log.latest(&filter).0.into_iter().map(|entry| entry.name).collect()
        };
        let any = || ActivityFilter { limit: 10, ..ActivityFilter::default() };
        assert_eq!(names(any()), ["db", "web", "x"]);
        assert_eq!(names(ActivityFilter { user: "ann".into(), ..any() }), ["web", "x"]);
        assert_eq!(names(ActivityFilter { resource: "deployments".into(), ..any() }), ["db", "web"]);
        assert_eq!(names(ActivityFilter { refused_only: true, ..any() }), ["web"]);
        assert_eq!(names(ActivityFilter { text: "CONFIGMAPS".into(), ..any() }), ["x"]);
        let (page, has_more) = log.latest(&ActivityFilter { limit: 2, ..any() });
        assert_eq!((page.len(), has_more), (2, true));
    }
}
