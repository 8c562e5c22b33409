//! Delivers registrations to webhooks: all of them first, then the changes, signed, until the receiver has taken them.
//!
//! A delivery is the difference between what the receiver has and what is registered now. A receiver that is not reachable
//! needs no queue: the next delivery that succeeds contains everything it missed.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use apiserver::forwarding;
use bytes::Bytes;
use cluster_client::remote::config::Pem;
use cluster_client::remote::connect::open_http1_over;
use cluster_client::{ClusterClient, RemoteConfig};
use http::{Method, Request, Uri, header};
use instances::import::EndpointPolicy;
use jiff::Timestamp;
use manager_kinds::WEBHOOKS;
use object::{Object, Status, time};
use parking_lot::Mutex;
use reconcile::{Mirror, MirrorSpec, ObjectKey};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// The header with the time and the signature of a body.
pub const SIGNATURE_HEADER: &str = "x-flotilla-signature";
/// Deliveries kept of each webhook, with their bodies.
const DELIVERIES_MAX: usize = 20;
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);
const BACKOFF_MIN: Duration = Duration::from_secs(1);
const BACKOFF_MAX: Duration = Duration::from_secs(300);
/// Interval of deliveries with all registrations.
const FULL_INTERVAL: Duration = Duration::from_secs(600);

/// A message to a webhook.
#[derive(Clone, Debug, Default)]
pub struct DeliveryRecord {
    pub id: String,
    pub time: String,
    pub attempts: i32,
    pub is_delivered: bool,
    /// HTTP status of the last answer; 0 without one.
    pub code: u16,
    pub error: String,
    pub is_full: bool,
    pub body: Bytes,
}

/// The webhooks and what was sent to them.
#[derive(Clone)]
pub struct Webhooks {
    client: ClusterClient,
    /// The Webhook objects.
    pub objects: Mirror,
    registrations: Mirror,
    policy: EndpointPolicy,
    log: Arc<Mutex<HashMap<String, VecDeque<DeliveryRecord>>>>,
}

/// Registrations by name.
type Registered = BTreeMap<String, Value>;

impl Webhooks {
    pub fn new(
        client: &ClusterClient,
        registrations: &Mirror,
        policy: EndpointPolicy,
        cancel: &CancellationToken,
    ) -> Self {
        let objects = Mirror::start(client.clone(), MirrorSpec::new(&WEBHOOKS.gvr()), cancel.clone());
        let (client, registrations) = (client.clone(), registrations.clone());
        Self { client, objects, registrations, policy, log: Arc::default() }
    }

    /// Runs one task for each enabled webhook; a changed one starts over.
    pub async fn run(self, cancel: CancellationToken) {
        let mut running: HashMap<String, (i64, CancellationToken)> = HashMap::new();
        let mut changes = self.objects.subscribe();
        self.objects.synced().await;
        self.registrations.synced().await;
        loop {
            let enabled: HashMap<String, Arc<Object>> = self
                .objects
                .list()
                .into_iter()
                .filter(|webhook| webhook.bool_at(&["spec", "disabled"]) != Some(true))
                .map(|webhook| (webhook.uid().to_owned(), webhook))
                .collect();
            running.retain(|uid, (generation, stop)| {
                let is_same = enabled.get(uid).is_some_and(|webhook| webhook.generation() == *generation);
                if !is_same {
                    stop.cancel();
                }
                is_same
            });
            self.log.lock().retain(|uid, _| self.objects.list().iter().any(|webhook| webhook.uid() == uid));
            for (uid, webhook) in enabled {
                running.entry(uid).or_insert_with(|| {
                    let stop = cancel.child_token();
                    let (own, generation, stopped) = (self.clone(), webhook.generation(), stop.clone());
                    tokio::spawn(async move {
                        tokio::select! {
                            () = stopped.cancelled() => {}
                            () = own.serve(&webhook) => {}
                        }
                    });
                    (generation, stop)
                });
            }
            tokio::select! {
                () = cancel.cancelled() => return,
                _ = changes.next() => {}
            }
        }
    }

    /// Delivers to one webhook until dropped.
    async fn serve(&self, webhook: &Object) {
        let mut changes = self.registrations.subscribe();
        let mut sent: Option<Registered> = None;
        let (mut previous, mut full_at, mut failures) = (String::new(), Instant::now(), 0u32);
        loop {
            let now = self.registered();
            let is_full = sent.is_none() || full_at.elapsed() >= FULL_INTERVAL;
            let before = sent.as_ref().filter(|_| !is_full);
            if before != Some(&now) {
                let delivery = new_delivery(&previous, before, &now);
                match self.attempt(webhook, delivery).await {
                    Ok(id) => {
                        (previous, failures) = (id, 0);
                        if is_full {
                            full_at = Instant::now();
                        }
                        sent = Some(now);
                    }
                    Err(problem) => {
                        let wait = BACKOFF_MIN.saturating_mul(1 << failures.min(16)).min(BACKOFF_MAX);
                        failures = failures.saturating_add(1);
                        tracing::warn!(webhook = webhook.name(), problem, ?wait, "a delivery failed; will retry");
                        tokio::time::sleep(wait).await;
                        continue;
                    }
                }
            }
            // Several changes at once are one delivery.
            let _ = tokio::time::timeout(FULL_INTERVAL.saturating_sub(full_at.elapsed()), changes.next()).await;
        }
    }

    fn registered(&self) -> Registered {
        let spec = |object: &Arc<Object>| object.get(&["spec"]).cloned().unwrap_or_default();
        self.registrations.list().iter().map(|object| (object.name().to_owned(), spec(object))).collect()
    }

    /// Sends a delivery once, and records the result under its id.
    async fn attempt(&self, webhook: &Object, mut delivery: DeliveryRecord) -> Result<String, String> {
        delivery.attempts += 1;
        let sent = match tokio::time::timeout(ATTEMPT_TIMEOUT, self.send(webhook, &delivery.body)).await {
            Ok(sent) => sent,
            Err(_) => Err(format!("no answer within {ATTEMPT_TIMEOUT:?}")),
        };
        delivery.code = *sent.as_ref().unwrap_or(&0);
        delivery.error = match &sent {
            Ok(code) if (200..300).contains(code) => String::new(),
            Ok(code) if (300..400).contains(code) => format!("answered {code}: redirects are not followed"),
            Ok(code) => format!("answered {code}"),
            Err(problem) => problem.clone(),
        };
        delivery.is_delivered = delivery.error.is_empty();
        let (id, error) = (delivery.id.clone(), delivery.error.clone());
        self.record(webhook.uid(), delivery);
        if error.is_empty() { Ok(id) } else { Err(error) }
    }

    /// Failed attempts to deliver the same content are one entry.
    fn record(&self, uid: &str, mut delivery: DeliveryRecord) {
        let mut log = self.log.lock();
        let kept = log.entry(uid.to_owned()).or_default();
        let last = kept
            .back()
            .filter(|last| last.id == delivery.id || (!last.is_delivered && last.is_full == delivery.is_full));
        if let Some(attempts) = last.map(|last| last.attempts) {
            delivery.attempts = attempts.saturating_add(1);
            kept.pop_back();
        }
        if kept.len() >= DELIVERIES_MAX {
            kept.pop_front();
        }
        kept.push_back(delivery);
    }

    async fn send(&self, webhook: &Object, body: &Bytes) -> Result<u16, String> {
        let url = webhook.str_at(&["spec", "url"]);
        let uri: Uri = url.parse().map_err(|_| format!("{url:?} is not a URL"))?;
        let key = self.key_of(webhook).await?;
        let addresses = self.policy.resolve(url).await?;
        let mut config = RemoteConfig::new(url);
        let ca = webhook.str_at(&["spec", "caBundle"]);
        config.ca = (!ca.is_empty()).then(|| Pem::Text(ca.as_bytes().to_vec()));
        let failed = |error: &dyn std::fmt::Display| format!("cannot be reached: {error}");
        let stream = tokio::net::TcpStream::connect(&addresses[..]).await.map_err(|error| failed(&error))?;
        let stream = open_http1_over(&config, Box::new(stream)).await.map_err(|error| failed(&error))?;
        let host = uri.authority().map_or("", |authority| authority.as_str());
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header(header::HOST, host)
            .header(header::CONTENT_TYPE, "application/json")
            .header(SIGNATURE_HEADER, signature(&key, Timestamp::now().as_second(), body))
            .body(forwarding::whole(body.clone()))
            .map_err(|error| failed(&error))?;
        // The answer's body is dropped unread.
        let response = forwarding::exchange(stream, request).await.map_err(|error| failed(&error))?;
        Ok(response.status().as_u16())
    }

    /// Reads the key that signs what is exchanged with a webhook.
    pub async fn key_of(&self, webhook: &Object) -> Result<String, String> {
        let field = |name: &str| webhook.str_at(&["spec", "secretRef", name]);
        let key = Some(field("key")).filter(|key| !key.is_empty()).unwrap_or("kubeconfig");
        let found = instances::secrets::read_text(&self.client, field("namespace"), field("name"), key).await?;
        let found = found.trim().to_owned();
        if found.len() < KEY_MIN { Err(format!("the key has less than {KEY_MIN} characters")) } else { Ok(found) }
    }

    /// Returns the latest deliveries of a webhook, the newest first.
    pub fn deliveries(&self, name: &str) -> Result<Vec<DeliveryRecord>, Status> {
        let webhook = self.find(name)?;
        Ok(self.log.lock().get(webhook.uid()).into_iter().flatten().rev().cloned().collect())
    }

    /// Returns a recorded delivery.
    pub fn delivery(&self, name: &str, id: &str) -> Result<DeliveryRecord, Status> {
        let missing = || Status::new(404, "NotFound", format!("there is no delivery {id:?} to {name}"));
        self.deliveries(name)?.into_iter().find(|delivery| delivery.id == id).ok_or_else(missing)
    }

    /// Sends a recorded delivery again, once.
    pub async fn redeliver(&self, name: &str, id: &str) -> Result<DeliveryRecord, Status> {
        let webhook = self.find(name)?;
        let wanted = self.delivery(name, id)?;
        let again = DeliveryRecord { id: new_id(), time: time::format_micros(Timestamp::now()), attempts: 0, ..wanted };
        let id = again.id.clone();
        let _ = self.attempt(&webhook, again).await;
        self.delivery(name, &id)
    }

    fn find(&self, name: &str) -> Result<Arc<Object>, Status> {
        let missing = || Status::not_found(&WEBHOOKS.gvr().group_resource(), name);
        self.objects.get(&ObjectKey::new("", name)).ok_or_else(missing)
    }
}

/// Shorter keys are refused.
const KEY_MIN: usize = 16;

/// Returns the value of the signature header: the time, and the HMAC of time and body.
pub fn signature(key: &str, at: i64, body: &[u8]) -> String {
    let message = [at.to_string().as_bytes(), b".", body].concat();
    format!("t={at},v1={}", pki::token::hmac_sha256(key.as_bytes(), &message))
}

fn new_id() -> String {
    pki::token::random_lowercase(16).unwrap_or_default()
}

fn new_delivery(previous: &str, before: Option<&Registered>, now: &Registered) -> DeliveryRecord {
    let (id, time) = (new_id(), time::format_micros(Timestamp::now()));
    let changed: Vec<&Value> = now
        .iter()
        .filter(|(name, spec)| before.is_none_or(|before| before.get(*name) != Some(spec)))
        .map(|(_, spec)| spec)
        .collect();
    let removed: Vec<&Value> =
        before.into_iter().flatten().filter(|(name, _)| !now.contains_key(*name)).map(|(_, spec)| spec).collect();
    let is_full = before.is_none();
    let body = json!({
        "id": id, "previous": previous, "time": time, "type": "registrations", "full": is_full,
        "changed": changed, "removed": removed,
    });
    DeliveryRecord { id, time, is_full, body: body.to_string().into(), ..DeliveryRecord::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delivery_has_the_difference_and_the_first_one_has_all() {
        let registered = |entries: &[(&str, &str)]| -> Registered {
            entries.iter().map(|(name, state)| ((*name).to_owned(), json!({"name": name, "state": state}))).collect()
        };
        let (old, new) =
            (registered(&[("a", "Running"), ("b", "Running")]), registered(&[("a", "Failed"), ("c", "Running")]));
        let body = |delivery: &DeliveryRecord| serde_json::from_slice::<Value>(&delivery.body).expect("JSON");
        let first = new_delivery("", None, &old);
        assert_eq!(
            (body(&first)["full"].clone(), body(&first)["changed"].as_array().map(Vec::len)),
            (json!(true), Some(2))
        );
        let next = body(&new_delivery(&first.id, Some(&old), &new));
        let names = |list: &Value| -> Vec<Value> {
            list.as_array().into_iter().flatten().map(|entry| entry["name"].clone()).collect()
        };
        assert_eq!(
            (names(&next["changed"]), names(&next["removed"])),
            (vec![json!("a"), json!("c")], vec![json!("b")])
        );
        assert_eq!((next["previous"].as_str(), next["full"].as_bool()), (Some(first.id.as_str()), Some(false)));
    }

    #[test]
    fn a_signature_covers_the_time_and_the_body() {
        let signed = signature("key", 1, b"body");
        assert!(signed.starts_with("t=1,v1="));
        for other in [signature("kex", 1, b"body"), signature("key", 2, b"body"), signature("key", 1, b"bodz")] {
            assert_ne!(signed, other);
        }
    }
}
