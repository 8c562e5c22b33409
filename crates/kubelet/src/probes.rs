//! Runs startup, readiness and liveness probes of running containers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use reconcile::{Recorder, Regarding};
use serde_json::Value;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::decide::Health;
use crate::handlers::{HandlerTarget, run};
use crate::pod::{number, text};

/// A container to probe.
pub(crate) struct ProbeRequest {
    pub target: HandlerTarget,
    pub about: Regarding,
    /// Called on every change.
    pub changed: Arc<dyn Fn() + Send + Sync>,
}

/// A probed container; probing stops when dropped.
struct ProbedContainer {
    pod: String,
    health: Arc<Mutex<Health>>,
    _guard: DropGuard,
}

pub(crate) struct Prober {
    recorder: Recorder,
    watched: Mutex<BTreeMap<String, ProbedContainer>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Startup,
    Readiness,
    Liveness,
}

/// Probe timing, with Kubernetes' defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pace {
    delay: Duration,
    period: Duration,
    timeout: Duration,
    failures_max: u64,
    successes_min: u64,
}

impl Pace {
    fn of(probe: &Value) -> Self {
        let number = |field: &str, default: u64| {
            number(probe, field).and_then(|n| u64::try_from(n).ok()).filter(|n| *n > 0).unwrap_or(default)
        };
        Self {
            delay: Duration::from_secs(number("initialDelaySeconds", 0)),
            period: Duration::from_secs(number("periodSeconds", 10)),
            timeout: Duration::from_secs(number("timeoutSeconds", 1)),
            failures_max: number("failureThreshold", 3),
            successes_min: number("successThreshold", 1),
        }
    }
}

impl Prober {
    pub fn new(recorder: Recorder) -> Self {
        Self { recorder, watched: Mutex::default() }
    }

    /// Starts probing a running container, unless it is probed already.
    pub fn watch(&self, watch: ProbeRequest) {
        let id = watch.target.container_id.clone();
        let mut watched = self.watched.lock();
        if watched.contains_key(&id) {
            return;
        }
        let container = &watch.target.container;
        let health = Health {
            is_starting: container.get("startupProbe").is_some(),
            is_ready: container.get("readinessProbe").is_none(),
            unhealthy: None,
        };
        let health = Arc::new(Mutex::new(health));
        let cancel = CancellationToken::new();
        let entry = ProbedContainer {
            pod: watch.about.uid.clone(),
            health: Arc::clone(&health),
            _guard: cancel.clone().drop_guard(),
        };
        watched.insert(id, entry);
        let rounds = Rounds { watch, recorder: self.recorder.clone(), health };
        tokio::spawn(async move {
            tokio::select! {
                () = cancel.cancelled() => {}
                () = rounds.go() => {}
            }
        });
    }

    /// Returns the health of a pod's containers, by container id.
    pub fn health(&self, pod: &str) -> BTreeMap<String, Health> {
        let watched = self.watched.lock();
        let of_pod = watched.iter().filter(|(_, watched)| watched.pod == pod);
        of_pod.map(|(id, watched)| (id.clone(), watched.health.lock().clone())).collect()
    }

    /// Stops probing all other containers of a pod.
    pub fn retain(&self, pod: &str, keep: impl Fn(&str) -> bool) {
        self.watched.lock().retain(|id, watched| watched.pod != pod || keep(id));
    }
}

struct Rounds {
    watch: ProbeRequest,
    recorder: Recorder,
    health: Arc<Mutex<Health>>,
}

impl Rounds {
    async fn go(self) {
        let container = Arc::clone(&self.watch.target.container);
        if let Some(probe) = container.get("startupProbe") {
            self.rounds(Kind::Startup, probe, true).await;
        }
        let round = |kind, field: &str| {
            let probe = container.get(field).cloned();
            let rounds = &self;
            async move {
                if let Some(probe) = probe {
                    rounds.rounds(kind, &probe, false).await;
                }
            }
        };
        futures::join!(round(Kind::Readiness, "readinessProbe"), round(Kind::Liveness, "livenessProbe"));
    }

    /// Probes periodically; with `until_well` it returns at the first success.
    async fn rounds(&self, kind: Kind, probe: &Value, until_well: bool) {
        let pace = Pace::of(probe);
        tokio::time::sleep(pace.delay).await;
        let (mut failures, mut successes) = (0, 0);
        loop {
            match run(probe, &self.watch.target, pace.timeout).await {
                Ok(()) => {
                    (failures, successes) = (0, successes + 1);
                    if successes >= pace.successes_min {
                        self.note(kind, true);
                        if until_well {
                            return;
                        }
                    }
                }
                Err(why) => {
                    (failures, successes) = (failures + 1, 0);
                    let message = format!("{kind:?} probe failed: {why}");
                    self.recorder.warning(self.watch.about.clone(), "Unhealthy", message);
                    if failures >= pace.failures_max {
                        self.note(kind, false);
                    }
                }
            }
            tokio::time::sleep(pace.period).await;
        }
    }

    fn note(&self, kind: Kind, is_well: bool) {
        let changed = {
            let mut health = self.health.lock();
            let before = health.clone();
            match kind {
                Kind::Startup => health.is_starting = !is_well,
                Kind::Readiness => health.is_ready = is_well,
                Kind::Liveness => {}
            }
            if !is_well && kind != Kind::Readiness {
                let (name, probe) = (text(&self.watch.target.container, "name"), format!("{kind:?}").to_lowercase());
                health.unhealthy = Some(format!("Container {name} failed {probe} probe, will be restarted"));
            }
            *health != before
        };
        if changed {
            (self.watch.changed)();
        }
    }
}

#[cfg(test)]
mod tests {
    use cluster_client::testing::MemoryApi;
    use serde_json::json;
    use tokio::net::TcpListener;
    use tokio::sync::Notify;

    use super::*;
    use crate::cri::Runtime;

    struct Scene {
        prober: Prober,
        changed: Arc<Notify>,
    }

    fn scene(container: Value) -> Scene {
        let cancel = CancellationToken::new();
        let recorder =
            Recorder::start(MemoryApi::default().client(), "kubelet", Arc::new(reconcile::SystemClock), cancel);
        let prober = Prober::new(recorder);
        let changed = Arc::new(Notify::new());
        let notify = Arc::clone(&changed);
        let runtime = Runtime::connect(std::path::Path::new("/nonexistent/socket")).expect("nothing is opened yet");
        let target = HandlerTarget {
            runtime,
            container_id: "c".into(),
            container: Arc::new(container),
            address: "127.0.0.1".into(),
        };
        let about = Regarding { uid: "u".into(), name: "web".into(), ..Default::default() };
        prober.watch(ProbeRequest { target, about, changed: Arc::new(move || notify.notify_one()) });
        Scene { prober, changed }
    }

    fn health(scene: &Scene) -> Health {
        scene.prober.health("u").remove("c").expect("it is probed")
    }

    #[tokio::test]
    async fn a_container_is_ready_after_startup_and_its_first_success() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let probe = json!({"tcpSocket": {"port": port}, "periodSeconds": 1});
        let scene = scene(json!({"name": "a", "startupProbe": probe, "readinessProbe": probe}));
        assert_eq!(health(&scene), Health { is_starting: true, is_ready: false, unhealthy: None });
        scene.changed.notified().await;
        if !health(&scene).is_ready {
            scene.changed.notified().await;
        }
        assert_eq!(health(&scene), Health { is_starting: false, is_ready: true, unhealthy: None });
    }

    #[tokio::test(start_paused = true)]
    async fn a_container_is_unhealthy_at_the_failure_threshold() {
        let probe = json!({"httpGet": {"port": "none"}, "periodSeconds": 1, "failureThreshold": 3});
        let scene = scene(json!({"name": "a", "livenessProbe": probe}));
        scene.changed.notified().await;
        let unhealthy = Some("Container a failed liveness probe, will be restarted".to_owned());
        assert_eq!(health(&scene), Health { is_starting: false, is_ready: true, unhealthy });
        scene.prober.retain("u", |_| false);
        assert!(scene.prober.health("u").is_empty());
    }
}
