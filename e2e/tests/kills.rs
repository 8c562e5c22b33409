//! A server that is killed again and again, at random moments while clients write, loses no acknowledged write and brings none back:
//! creates, updates of existing objects by PUT and by PATCH, deletes.
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
    let mut counters =
        ["PUT", "PATCH"].map(|method| Counter::create(&RawClient::of(&server).with_token(&token), method));
    let (mut written, mut updated, mut removed, mut slowest) = (0, 0, 0, Duration::ZERO);
    for round in 0..kills {
        let client = RawClient::of(&server).with_token(&token);
        let time = Duration::from_millis(random.random_range(20..400));
        let acknowledged = write_until_killed(server, &client, round, &mut counters, time);
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
        for counter in &mut counters {
            let found = counter.check(&client);
            updated += found.unwrap_or_else(|why| {
                panic!("FLOTILLA_SEED={seed}, kill {round}: {why}\n{}", server.log());
            });
        }
        let returned = names(&client, &format!("round={}", round.wrapping_sub(1)));
        assert!(returned.is_empty(), "FLOTILLA_SEED={seed}, kill {round}: deleted but back: {returned:?}");
        // The next kill comes right after this deletion was acknowledged.
        let deleted = client.ask("DELETE", &format!("{PATH}?labelSelector=round%3D{round}"), "application/json", "");
        assert_eq!(deleted.expect("an answer").code, 200);
        removed += found.len();
        // A run of an hour shows how far it is.
        if (round + 1) % 100 == 0 {
            eprintln!("{} kills, {written} creates, {updated} updates, slowest start {slowest:?}", round + 1);
        }
    }
    assert!(written > 0 && updated > 0, "no write was acknowledged, so nothing was tested");
    eprintln!(
        "{kills} kills, {written} creates, {updated} updates and {removed} deletions acknowledged, none lost; slowest start \
         {slowest:?}"
    );
}

/// Writes from several clients, kills the server after `time`, and returns the names of all acknowledged objects.
fn write_until_killed(
    server: Flotilla,
    client: &RawClient,
    round: u64,
    counters: &mut [Counter],
    time: Duration,
) -> BTreeSet<String> {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let is_over = &is_over;
        let writers: Vec<_> =
            (0..WRITERS).map(|writer| scope.spawn(move || write(client, round, writer, is_over))).collect();
        for counter in counters {
            scope.spawn(move || counter.count(client));
        }
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

/// An object that one client changes again and again, each time to the next number.
struct Counter {
    path: String,
    method: &'static str,
    /// The last number whose write was acknowledged, at this revision.
    acknowledged: u64,
    revision: u64,
    /// The last number that was sent.
    sent: u64,
    /// Acknowledged writes since the last check.
    written: usize,
}

impl Counter {
    fn create(client: &RawClient, method: &'static str) -> Self {
        let name = format!("counter-{}", method.to_lowercase());
        let created =
            client.post(PATH, &json!({"metadata": {"name": name}, "data": {"count": "0"}})).expect("an answer");
        assert_eq!(created.code, 201, "{}", created.body);
        let (_, revision) = state(&created.json());
        Self { path: format!("{PATH}/{name}"), method, acknowledged: 0, revision, sent: 0, written: 0 }
    }

    /// Writes until the server is gone.
    fn count(&mut self, client: &RawClient) {
        let Ok(found) = client.get(&self.path) else { return };
        let mut object = found.json();
        loop {
            let next = self.sent + 1;
            let answer = match self.method {
                "PUT" => {
                    object["data"]["count"] = json!(next.to_string());
                    client.ask("PUT", &self.path, "application/json", &object.to_string())
                }
                method => {
                    let patch = json!({"data": {"count": next.to_string()}}).to_string();
                    client.ask(method, &self.path, "application/merge-patch+json", &patch)
                }
            };
            self.sent = next;
            match answer {
                Ok(answer) if answer.code == 200 => {
                    object = answer.json();
                    (self.acknowledged, self.revision) = (next, state(&object).1);
                    self.written += 1;
                }
                // The server is being killed.
                _ => return,
            }
        }
    }

    /// Returns the number of acknowledged writes, or what is wrong with the object after a restart: it has the last acknowledged number,
    /// or the one after it if that was sent.
    fn check(&mut self, client: &RawClient) -> Result<usize, String> {
        let found = client.get(&self.path).map_err(|error| error.to_string())?;
        let (number, revision) = state(&found.json());
        let Self { acknowledged, sent, .. } = *self;
        let is_expected = match number == acknowledged {
            true => revision == self.revision,
            false => (acknowledged..=sent).contains(&number) && revision > self.revision,
        };
        if !is_expected {
            let known = format!("{acknowledged} was acknowledged at {}, {sent} was sent", self.revision);
            return Err(format!("{} is {number} at revision {revision}; {known}: {}", self.path, found.body));
        }
        (self.acknowledged, self.sent, self.revision) = (number, number, revision);
        Ok(std::mem::take(&mut self.written))
    }
}

/// The number and revision of a counter; no counter has the number 2^64 - 1.
fn state(object: &Value) -> (u64, u64) {
    let number = |value: &Value| value.as_str().and_then(|text| text.parse().ok()).unwrap_or(u64::MAX);
    (number(&object["data"]["count"]), number(&object["metadata"]["resourceVersion"]))
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
