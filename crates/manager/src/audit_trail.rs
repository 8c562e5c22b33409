//! The latest requests that changed something or were refused, at every entry point for users: the API and the proxy to
//! instances. Kept in memory; the audit log of the server (`--audit-log`) has all requests, also those from before a restart.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

use apiserver::activity::{ActivityEntry, ActivityFilter};
use apiserver::server::Server;
use jiff::Timestamp;
use manager_kinds::{INSTANCE_NAMESPACE, KARMADAS};
use object::request::User;
use object::time;
use parking_lot::Mutex;

/// Entries kept; the oldest goes first.
pub const ENTRIES_MAX: usize = 10_000;
/// Characters kept of texts that a client chooses.
const TEXT_MAX: usize = 256;

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRecord {
    pub id: String,
    /// RFC 3339 with microseconds; sorts as text.
    pub time: String,
    pub user: String,
    pub groups: Vec<String>,
    pub source: String,
    pub action: String,
    pub instance: String,
    pub code: u16,
    pub message: String,
    pub milliseconds: i64,
}

/// A request with its answer.
pub struct AuditedRequest<'a> {
    /// `None` for a credential that only the instance knows.
    pub user: Option<&'a User>,
    pub source: IpAddr,
    pub action: String,
    pub instance: &'a str,
    pub code: u16,
    pub message: &'a str,
    pub took: std::time::Duration,
}

/// The group in the paths that the API has for clients of Kairship: calls by them are in the trail already.
const ALIASES_GROUP: &str = "kairship.io";

/// The latest requests.
#[derive(Default)]
pub struct AuditTrail {
    entries: Mutex<VecDeque<Arc<AuditRecord>>>,
}

/// Returns true for requests that are recorded: all but reads that were answered.
pub fn is_recorded(is_read: bool, code: u16) -> bool {
    !is_read || matches!(code, 401 | 403)
}

fn short(text: &str) -> String {
    text.chars().take(TEXT_MAX).collect()
}

impl AuditTrail {
    pub fn note(&self, request: &AuditedRequest<'_>) {
        let groups = request.user.map(|user| user.groups.iter().take(20).map(|group| short(group)).collect());
        self.push(AuditRecord {
            id: pki::token::random_lowercase(16).unwrap_or_default(),
            time: time::format_micros(Timestamp::now()),
            user: request.user.map_or_else(|| "(credential of the instance)".to_owned(), |user| short(&user.name)),
            groups: groups.unwrap_or_default(),
            source: request.source.to_string(),
            action: short(&request.action),
            instance: short(request.instance),
            code: request.code,
            message: short(request.message),
            milliseconds: i64::try_from(request.took.as_millis()).unwrap_or(i64::MAX),
        });
    }

    fn push(&self, record: AuditRecord) {
        let mut entries = self.entries.lock();
        if entries.len() >= ENTRIES_MAX {
            entries.pop_front();
        }
        entries.push_back(Arc::new(record));
    }

    /// Returns the entries of this trail and those of the manager's own Kubernetes API, the newest first.
    pub fn latest(&self, server: &Server) -> Vec<Arc<AuditRecord>> {
        let all = ActivityFilter { limit: usize::MAX, ..ActivityFilter::default() };
        let mut found: Vec<Arc<AuditRecord>> = self.entries.lock().iter().cloned().collect();
        let of_objects = server.activity.latest(&all).0.into_iter().filter(|entry| entry.group != ALIASES_GROUP);
        found.extend(of_objects.map(|entry| Arc::new(of_activity(entry))));
        found.sort_by(|a, b| (&b.time, &b.id).cmp(&(&a.time, &a.id)));
        found
    }
}

/// A request to the manager's Kubernetes API.
fn of_activity(entry: ActivityEntry) -> AuditRecord {
    let is_instance = entry.group == KARMADAS.group && entry.resource == KARMADAS.plural;
    let instance = match (is_instance, entry.namespace.as_str()) {
        (false, _) => String::new(),
        (true, INSTANCE_NAMESPACE) => entry.name.clone(),
        (true, namespace) => format!("{namespace}~{}", entry.name),
    };
    AuditRecord {
        id: entry.audit_id,
        time: entry.last_time,
        user: entry.user,
        groups: entry.groups,
        source: entry.source,
        action: format!("{} {}", entry.verb, entry.path),
        instance,
        code: entry.code,
        message: String::new(),
        milliseconds: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_recorded_when_they_are_refused_and_the_oldest_entry_goes_first() {
        for (is_read, code, expected) in
            [(true, 200, false), (true, 404, false), (true, 403, true), (true, 401, true), (false, 200, true)]
        {
            assert_eq!(is_recorded(is_read, code), expected, "{is_read} {code}");
        }
        let trail = AuditTrail::default();
        let user = User::new("ann", &["dev"]);
        let long = "x".repeat(1000);
        for number in 0..=ENTRIES_MAX {
            trail.note(&AuditedRequest {
                user: Some(&user),
                source: [127, 0, 0, 1].into(),
                action: format!("{number}"),
                instance: "east",
                code: 200,
                message: &long,
                took: std::time::Duration::from_millis(3),
            });
        }
        let entries = trail.entries.lock();
        assert_eq!((entries.len(), entries[0].action.as_str()), (ENTRIES_MAX, "1"));
        assert_eq!((entries[0].message.len(), entries[0].milliseconds), (TEXT_MAX, 3));
    }
}
