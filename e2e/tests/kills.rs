//! A server that is killed again and again, at random moments while clients write, loses no acknowledged write and brings none back.
//!
//! `FLOTILLA_KILLS=1000 cargo test -p e2e --test kills -- --nocapture` kills it a thousand times.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use e2e::flotilla::Flotilla;
use e2e::raw_client::RawClient;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

const WRITERS: usize = 4;
const PATH: &str = "/api/v1/namespaces/default/configmaps";

#[test]
fn no_acknowledged_write_is_lost_however_often_the_server_is_killed() {
    let number =
        |name: &str, otherwise: u64| std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(otherwise);
    let (kills, seed) = (number("FLOTILLA_KILLS", 8), number("FLOTILLA_SEED", 1));
    let mut random = StdRng::seed_from_u64(seed);
    let folder = tempfile::tempdir().expect("a temporary directory");
    let mut server = Flotilla::start_in(folder.path(), &[]);
    let token = administrator(&server);
    let (mut written, mut removed, mut slowest) = (0, 0, Duration::ZERO);
    for round in 0..kills {
        let client = RawClient::of(&server).with_token(&token);
        let acknowledged =
            write_until_killed(server, &client, round, Duration::from_millis(random.random_range(20..400)));
        let start = std::time::Instant::now();
        server = Flotilla::start_in(folder.path(), &[]);
        slowest = slowest.max(start.elapsed());
        let client = RawClient::of(&server).with_token(&token);
        let found = names(&client, &format!("round={round}"));
        let lost: Vec<_> = acknowledged.difference(&found).collect();
        assert!(
            lost.is_empty(),
            "FLOTILLA_SEED={seed}, kill {round}: acknowledged but lost: {lost:?}\n{}",
            server.log()
        );
        written += acknowledged.len();
        let returned = names(&client, &format!("round={}", round.wrapping_sub(1)));
        assert!(returned.is_empty(), "FLOTILLA_SEED={seed}, kill {round}: deleted but back: {returned:?}");
        // The next kill comes right after this deletion was acknowledged.
        let deleted = client.ask("DELETE", &format!("{PATH}?labelSelector=round%3D{round}"), "application/json", "");
        assert_eq!(deleted.expect("an answer").code, 200);
        removed += found.len();
        // A run of an hour shows how far it is.
        if (round + 1) % 100 == 0 {
            eprintln!("{} kills, {written} acknowledged writes, slowest start {slowest:?}", round + 1);
        }
    }
    assert!(written > 0, "no write was acknowledged, so nothing was tested");
    eprintln!(
        "{kills} kills, {written} acknowledged writes and {removed} deletions, none lost; slowest start {slowest:?}"
    );
}

/// Writes from several clients, kills the server after `time`, and returns the names of all acknowledged objects.
fn write_until_killed(server: Flotilla, client: &RawClient, round: u64, time: Duration) -> BTreeSet<String> {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let is_over = &is_over;
        let writers: Vec<_> =
            (0..WRITERS).map(|writer| scope.spawn(move || write(client, round, writer, is_over))).collect();
        // The moment of the kill is the point of this test, so it is a time and not a condition.
        std::thread::sleep(time);
        server.kill();
        is_over.store(true, Ordering::Relaxed);
        writers.into_iter().flat_map(|writer| writer.join().expect("a writer ends")).collect()
    })
}

fn write(client: &RawClient, round: u64, writer: usize, is_over: &AtomicBool) -> Vec<String> {
    let mut acknowledged = Vec::new();
    for number in 0.. {
        let name = format!("k-{round}-{writer}-{number}");
        let object =
            json!({"metadata": {"name": name, "labels": {"round": round.to_string()}}, "data": {"a": "b".repeat(200)}});
        match client.post(PATH, &object) {
            Ok(response) if response.code == 201 => acknowledged.push(name),
            _ if is_over.load(Ordering::Relaxed) => break,
            // The server is being killed.
            _ => std::thread::yield_now(),
        }
    }
    acknowledged
}

fn names(client: &RawClient, selector: &str) -> BTreeSet<String> {
    let listed = client.get(&format!("{PATH}?labelSelector={}", selector.replace('=', "%3D"))).expect("an answer");
    assert_eq!(listed.code, 200, "{}", listed.body);
    let list: Value = listed.json();
    let items = list["items"].as_array().expect("items");
    items.iter().filter_map(|item| item["metadata"]["name"].as_str().map(str::to_owned)).collect()
}

/// A token with all rights; it outlives the server.
fn administrator(server: &Flotilla) -> String {
    for arguments in [
        vec!["create", "serviceaccount", "writer"],
        vec![
            "create",
            "clusterrolebinding",
            "writer",
            "--clusterrole=cluster-admin",
            "--serviceaccount=default:writer",
        ],
    ] {
        assert!(server.kubectl(&arguments).status.success());
    }
    let token = server.kubectl(&["create", "token", "writer", "--duration=24h"]);
    String::from_utf8(token.stdout).expect("a token").trim().to_owned()
}
