//! Retention of CertificateSigningRequests.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use object::conditions;
use object::{Object, time};
use pki::certificate::Certificate;

const ANSWERED_KEPT: Duration = Duration::from_secs(3600);
const UNANSWERED_KEPT: Duration = Duration::from_secs(24 * 3600);
/// Maximum interval between two checks of a request.
const WAIT_MAX: Duration = Duration::from_secs(3600);

/// Returns the time until the next check; `None` if the request must be deleted.
pub fn wait(request: &Object, now: Timestamp) -> Option<Duration> {
    let issued = request.str_at(&["status", "certificate"]);
    let expires = || Some(Certificate::from_pem(&STANDARD.decode(issued).ok()?).ok()?.not_after());
    let mut ends: Vec<Timestamp> = Vec::new();
    let mut keep =
        |since: Option<Timestamp>, kept: Duration| ends.extend(since.and_then(|at| at.checked_add(kept).ok()));
    let updated = |name| conditions::find(request, name).and_then(|found| time::parse(found.text("lastUpdateTime")));
    keep(updated("Denied"), ANSWERED_KEPT);
    keep(updated("Failed"), ANSWERED_KEPT);
    match issued.is_empty() {
        true => keep(updated("Approved"), UNANSWERED_KEPT),
        false => {
            keep(updated("Approved"), ANSWERED_KEPT);
            keep(conditions::find(request, "Approved").and_then(|_| expires()), Duration::ZERO);
        }
    }
    if request.items(&["status", "conditions"]).is_empty() {
        keep(time::parse(request.creation_timestamp()), UNANSWERED_KEPT);
    }
    let Some(end) = ends.into_iter().min() else { return Some(WAIT_MAX) };
    let left = end.duration_since(now);
    // Deleted strictly after the deadline.
    (!left.is_negative()).then(|| left.unsigned_abs().clamp(Duration::from_secs(1), WAIT_MAX))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(status: &Value, now: &str, is_kept: bool) {
        let request = json!({"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}, "status": status});
        let request = Object::from_value(request).expect("a map");
        assert_eq!(wait(&request, now.parse().expect("a time")).is_some(), is_kept, "{status} at {now}");
    }

    #[test]
    fn decided_requests_are_kept_for_an_hour_and_pending_ones_for_a_day() {
        let answered = |name: &str| json!({"conditions": [{"type": name, "lastUpdateTime": "2026-01-01T00:00:00Z"}]});
        check(&json!({}), "2026-01-01T23:59:59Z", true);
        check(&json!({}), "2026-01-02T00:00:01Z", false);
        for name in ["Denied", "Failed"] {
            check(&answered(name), "2026-01-01T00:59:00Z", true);
            check(&answered(name), "2026-01-01T01:00:01Z", false);
        }
        check(&answered("Approved"), "2026-01-01T02:00:00Z", true);
        check(&answered("Approved"), "2026-01-02T00:00:01Z", false);
        let mut issued = answered("Approved");
        issued["certificate"] = "AAAA".into();
        check(&issued, "2026-01-01T01:00:01Z", false);
    }
}
