//! A client that writes and reads continuously while servers are disturbed, and records all responses.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client};

/// Interval between two writes.
const PACE: Duration = Duration::from_millis(10);
/// A slower request counts as hung.
const HUNG_AFTER: Duration = Duration::from_secs(40);

#[derive(Default, Clone)]
pub struct LoadRecord {
    /// Names of acknowledged writes.
    pub acknowledged: Vec<String>,
    /// Errors and the time until each was returned.
    pub errors: Vec<(String, Duration)>,
    /// The slowest successful request.
    pub slowest: Duration,
}

pub struct Load {
    stop: Arc<AtomicBool>,
    record: Arc<std::sync::Mutex<LoadRecord>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Load {
    /// Writes ConfigMaps `PREFIX-0`, `PREFIX-1`, … one after the other, reading each back, until stopped.
    pub fn start(kubeconfig: &Path, prefix: &str) -> Self {
        let (stop, record) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let (over, seen, kubeconfig, prefix) =
            (Arc::clone(&stop), Arc::clone(&record), kubeconfig.to_owned(), prefix.to_owned());
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(run(&kubeconfig, &prefix, &over, &seen));
        });
        Self { stop, record, thread: Some(thread) }
    }

    pub fn seen(&self) -> LoadRecord {
        self.record.lock().expect("not poisoned").clone()
    }

    /// Waits for this many more acknowledged writes.
    #[track_caller]
    pub fn go_on(&self, writes: usize, limit: Duration) {
        let (start, before) = (Instant::now(), self.seen().acknowledged.len());
        while self.seen().acknowledged.len() < before + writes {
            let seen = self.seen();
            let now = seen.acknowledged.len() - before;
            assert!(start.elapsed() < limit, "{now} of {writes} writes within {limit:?}: {:?}", seen.errors.last());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn finish(mut self) -> LoadRecord {
        self.end();
        self.seen()
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the client ended badly");
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.end();
    }
}

pub async fn connect(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let mut config = config.expect("a config");
    // Responses are recorded as sent by the server.
    config.default_retry = false;
    Client::try_from(config).expect("a client")
}

async fn run(kubeconfig: &Path, prefix: &str, over: &AtomicBool, record: &std::sync::Mutex<LoadRecord>) {
    let maps: Api<ConfigMap> = Api::default_namespaced(connect(kubeconfig).await);
    let mut number = 0;
    while !over.load(Ordering::Relaxed) {
        let name = format!("{prefix}-{number}");
        if write(&maps, &name, record).await {
            number += 1;
            record.lock().expect("not poisoned").acknowledged.push(name.clone());
            while !over.load(Ordering::Relaxed) && !read(&maps, &name, record).await {}
        }
        tokio::time::sleep(PACE).await;
    }
}

/// Returns true once the server acknowledged it. A failed write may have happened: a retry then reports that it
/// exists.
async fn write(maps: &Api<ConfigMap>, name: &str, record: &std::sync::Mutex<LoadRecord>) -> bool {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    let start = Instant::now();
    let answer = tokio::time::timeout(HUNG_AFTER, maps.create(&PostParams::default(), &map)).await;
    match answer.unwrap_or_else(|_| panic!("a write hung for {HUNG_AFTER:?}")) {
        Ok(_) => succeeded(record, start),
        Err(kube::Error::Api(status)) if status.code == 409 => succeeded(record, start),
        Err(error) => failed(record, &error, start),
    }
}

/// Acknowledged writes must be found on any server.
async fn read(maps: &Api<ConfigMap>, name: &str, record: &std::sync::Mutex<LoadRecord>) -> bool {
    let start = Instant::now();
    let answer = tokio::time::timeout(HUNG_AFTER, maps.get(name)).await;
    match answer.unwrap_or_else(|_| panic!("a read hung for {HUNG_AFTER:?}")) {
        Ok(_) => succeeded(record, start),
        Err(kube::Error::Api(status)) if status.code == 404 => panic!("{name} was acknowledged but does not exist"),
        Err(error) => failed(record, &error, start),
    }
}

fn succeeded(record: &std::sync::Mutex<LoadRecord>, start: Instant) -> bool {
    let mut record = record.lock().expect("not poisoned");
    record.slowest = record.slowest.max(start.elapsed());
    true
}

fn failed(record: &std::sync::Mutex<LoadRecord>, error: &kube::Error, start: Instant) -> bool {
    let text = match error {
        kube::Error::Api(status) => format!("{} {}: {}", status.code, status.reason, status.message),
        other => format!("connection: {other:?}"),
    };
    record.lock().expect("not poisoned").errors.push((text, start.elapsed()));
    false
}

/// Returns everything in `record` that the server does not have.
pub fn missing(kubeconfig: &Path, record: &LoadRecord) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let maps: Api<ConfigMap> = Api::default_namespaced(connect(kubeconfig).await);
        let listed = maps.list(&ListParams::default()).await.expect("a list");
        let there: std::collections::HashSet<String> =
            listed.items.into_iter().filter_map(|map| map.metadata.name).collect();
        record.acknowledged.iter().filter(|name| !there.contains(*name)).cloned().collect()
    })
}
