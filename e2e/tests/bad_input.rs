//! Hostile and malformed requests get the response of a real kube-apiserver, and leave the server intact.

#[path = "wire/table/mod.rs"]
mod table;
mod wire;

use std::fs;

use e2e::flotilla::Flotilla;
use e2e::kube_apiserver::KubeApiServer;
use serde_json::json;
use table::Case;
use wire::{Endpoint, RawAnswer};

/// Maximum memory growth after three rounds of all requests.
const GROWTH_KIB_MAX: u64 = 50 * 1024;

#[test]
fn hostile_requests_are_rejected_like_by_a_real_server() {
    let server = Flotilla::start();
    let ours = Endpoint::of_kubeconfig(&server.kubeconfig);
    let real = KubeApiServer::start();
    let theirs = real.as_ref().map(|real| Endpoint::of_kubeconfig(&real.kubeconfig));
    [Some(&ours), theirs.as_ref()].into_iter().flatten().for_each(prepare);
    let mut complaints = Vec::new();
    for case in table::all() {
        check(&case, "flotilla", &case.want, case.send(&ours), &mut complaints);
        let theirs = theirs.as_ref().filter(|_| case.unlike != table::NOT_ASKED);
        if let Some(theirs) = theirs {
            let want = if case.unlike.is_empty() { &case.want } else { &case.theirs };
            check(&case, "kube-apiserver", want, case.send(theirs), &mut complaints);
        }
    }
    assert!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n"));
    ours.get("/readyz").expect(200);
    assert!(!server.log().contains("panicked"), "{}", server.log());
}

#[test]
fn hostile_requests_do_not_make_the_server_grow() {
    let server = Flotilla::start();
    let ours = Endpoint::of_kubeconfig(&server.kubeconfig);
    prepare(&ours);
    let cases = table::all();
    let say_all = || cases.iter().for_each(|case| drop(case.send(&ours)));
    // The first round warms up caches and the allocator.
    say_all();
    let before = resident_kib(server.pid());
    (0..3).for_each(|_| say_all());
    let after = resident_kib(server.pid());
    ours.get("/readyz").expect(200);
    assert!(after < before + GROWTH_KIB_MAX, "grew from {before} KiB to {after} KiB");
}

/// Creates the objects the cases refer to.
fn prepare(endpoint: &Endpoint) {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "target"}, "data": {"a": "1"}});
    endpoint.post("/api/v1/namespaces/default/configmaps", &map).expect(201);
}

fn check(case: &Case, whose: &str, want: &table::ExpectedAnswer, got: Option<RawAnswer>, complaints: &mut Vec<String>) {
    let (code, reason, text) = match &got {
        Some(answer) => (answer.code, answer.reason(), answer.text()),
        None => (table::HUNG_UP, String::new(), String::new()),
    };
    let warning = got.as_ref().and_then(|answer| answer.header("warning")).unwrap_or_default();
    let whole = got.as_ref().map(|answer| String::from_utf8_lossy(&answer.body).into_owned()).unwrap_or_default();
    let said = whole.contains(want.says) || warning.contains(want.says);
    if code != want.code || reason != want.reason || !said {
        let name = case.name;
        complaints.push(format!("{name}: {whose} gave {code} {reason}, wanted {want:?}: {warning} {text}"));
    }
}

fn resident_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the server runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line VmRSS");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}
