//! Watches decisions in the control plane and their effects in the members, and reads both at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::api::{Api, ApiAnswer, Change, Ended, revision};
use super::system::{SoakMember, SoakSystem};
use super::users::{NAMESPACE, RequestedState};
use crate::history::applied::{Binding, FinalState, Observation, ObservedWork, Template, Work};

const BINDINGS: &str = "/apis/work.karmada.io/v1alpha2/namespaces/soak/resourcebindings";
const CLUSTERS: &str = "/apis/cluster.karmada.io/v1alpha1/clusters";
const WORKS: &str = "/apis/work.karmada.io/v1alpha1/works";
const MANAGED: &str = "?labelSelector=karmada.io%2Fmanaged%3Dtrue";
const KINDS: &[(&str, &str)] =
    &[("Deployment", "/apis/apps/v1/namespaces/soak/deployments"), ("ConfigMap", "/api/v1/namespaces/soak/configmaps")];
const BINDING_ID: &str = "resourcebinding.karmada.io/permanent-id";
const SPACE_PREFIX: &str = "karmada-es-";

/// Maps a change to an observation, if relevant.
type ObservationFilter = Box<dyn Fn(u64, &Change) -> Option<Observation> + Send + Sync>;

/// All observations, in memory and on disk.
pub struct Steps {
    start: Instant,
    kept: Mutex<(Vec<Observation>, BufWriter<File>)>,
}

impl Steps {
    pub fn create(path: &Path) -> std::io::Result<Self> {
        Ok(Self { start: Instant::now(), kept: Mutex::new((Vec::new(), BufWriter::new(File::create(path)?))) })
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).expect("a run is shorter than half a million years")
    }

    fn add(&self, step: Observation) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(kept.1, "{}", serde_json::to_string(&step).expect("steps are plain data"))
            .expect("the log can be written");
        kept.0.push(step);
    }

    pub fn all(&self) -> Vec<Observation> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.1.flush().expect("the log can be written");
        kept.0.clone()
    }
}

/// Starts all watches. They end with the token.
pub fn begin(system: &SoakSystem, steps: &Arc<Steps>, cancel: &CancellationToken) -> Vec<tokio::task::JoinHandle<()>> {
    let spawn = |apis: Vec<Api>, path: String, step: ObservationFilter| {
        tokio::spawn(follow(apis, path, Arc::clone(steps), step, cancel.clone()))
    };
    let mut tasks = vec![
        spawn(system.replicas.clone(), BINDINGS.to_owned(), Box::new(bound)),
        spawn(system.replicas.clone(), CLUSTERS.to_owned(), Box::new(joined)),
        spawn(system.replicas.clone(), WORKS.to_owned(), Box::new(worked)),
    ];
    for site in &system.members {
        for (kind, path) in KINDS {
            let (cluster, kind) = (site.name.clone(), (*kind).to_owned());
            let step = move |at, change: &Change| held(at, &cluster, &kind, change);
            tasks.push(spawn(vec![site.api.clone()], format!("{path}{MANAGED}"), Box::new(step)));
        }
    }
    tasks
}

async fn follow(apis: Vec<Api>, path: String, steps: Arc<Steps>, step: ObservationFilter, cancel: CancellationToken) {
    let mut last: Option<String> = None;
    let mut is_first = true;
    for api in apis.iter().cycle() {
        if cancel.is_cancelled() {
            return;
        }
        let Some(from) = last.clone() else {
            if let ApiAnswer::Done(list) = api.get(&path).await {
                if !is_first {
                    steps.add(Observation::Missed { at: steps.now(), what: path.clone() });
                }
                is_first = false;
                last = Some(revision(&list).to_string());
                for item in items(&list) {
                    steps.kept_from(step(steps.now(), &Change::Put(item.clone())));
                }
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
            continue;
        };
        let mut newest = from.clone();
        let watching = api.watch(&path, &from, |change| {
            newest = match &change {
                Change::Put(object) | Change::Gone(object) => revision(object).to_string(),
                Change::Bookmark(at) => at.clone(),
            };
            steps.kept_from(step(steps.now(), &change));
        });
        let ended = tokio::select! {
            ended = watching => ended,
            () = cancel.cancelled() => return,
        };
        last = (ended != Ended::TooOld).then_some(newest);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

impl Steps {
    fn kept_from(&self, step: Option<Observation>) {
        if let Some(step) = step {
            self.add(step);
        }
    }
}

fn bound(at: u64, change: &Change) -> Option<Observation> {
    match change {
        Change::Put(object) => {
            let binding = Some(read_binding(object));
            Some(Observation::Bound { at, revision: revision(object), name: name(object), binding })
        }
        Change::Gone(object) => {
            Some(Observation::Bound { at, revision: revision(object), name: name(object), binding: None })
        }
        Change::Bookmark(_) => None,
    }
}

fn joined(at: u64, change: &Change) -> Option<Observation> {
    let (object, is_going) = match change {
        Change::Put(object) => (object, !object["metadata"]["deletionTimestamp"].is_null()),
        Change::Gone(object) => (object, true),
        Change::Bookmark(_) => return None,
    };
    Some(Observation::Member { at, revision: revision(object), cluster: name(object), is_going })
}

fn worked(at: u64, change: &Change) -> Option<Observation> {
    let (object, is_gone) = match change {
        Change::Put(object) => (object, false),
        Change::Gone(object) => (object, true),
        Change::Bookmark(_) => return None,
    };
    let work = read_work(object)?;
    let seen = ObservedWork {
        uid: work.uid,
        generation: object["metadata"]["generation"].as_i64().unwrap_or(0),
        print: print(&work.manifest),
        is_going: work.is_going || is_gone,
    };
    let Work { cluster, object: named, binding, .. } = work;
    Some(Observation::Worked { at, revision: revision(object), cluster, object: named, binding, work: seen })
}

fn held(at: u64, cluster: &str, kind: &str, change: &Change) -> Option<Observation> {
    let uid = |object: &Value| object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    let cluster = cluster.to_owned();
    match change {
        Change::Put(object) => Some(Observation::Held {
            at,
            cluster,
            object: format!("{kind}/{}", name(object)),
            uid: uid(object),
            generation: object["metadata"]["generation"].as_i64().unwrap_or(0),
            print: print(object),
        }),
        Change::Gone(object) => {
            Some(Observation::Dropped { at, cluster, object: format!("{kind}/{}", name(object)), uid: uid(object) })
        }
        Change::Bookmark(_) => None,
    }
}

/// Returns the decided fields of an object: the user's value, the replicas, the override.
fn print(object: &Value) -> String {
    let annotation = |name: &str| object["metadata"]["annotations"][name].as_str().unwrap_or("-");
    let replicas = object["spec"]["replicas"].as_i64().map_or("-".to_owned(), |replicas| replicas.to_string());
    format!("{}/{replicas}/{}", annotation("soak/value"), annotation("soak/override"))
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

fn items(list: &Value) -> &[Value] {
    list["items"].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn read_binding(object: &Value) -> Binding {
    let spec = &object["spec"];
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let is_divided = spec["placement"]["replicaScheduling"]["replicaSchedulingType"] == "Divided";
    let is_workload = spec["resource"]["kind"] == "Deployment";
    let replicas = |target: &Value| (is_divided && is_workload).then(|| target["replicas"].as_i64().unwrap_or(0));
    Binding {
        id: text(&object["metadata"]["labels"][BINDING_ID]),
        template: format!("{}/{}", text(&spec["resource"]["kind"]), text(&spec["resource"]["name"])),
        template_uid: text(&spec["resource"]["uid"]),
        targets: list(&spec["clusters"]).iter().map(|target| (text(&target["name"]), replicas(target))).collect(),
        evicting: list(&spec["gracefulEvictionTasks"]).iter().map(|task| text(&task["fromCluster"])).collect(),
        is_going: !object["metadata"]["deletionTimestamp"].is_null(),
        is_applied: has_condition(object, "FullyApplied"),
    }
}

fn has_condition(object: &Value, kind: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    conditions.iter().any(|condition| condition["type"] == kind && condition["status"] == "True")
}

/// `None` for works of other objects than users' templates, such as namespaces.
fn read_work(object: &Value) -> Option<Work> {
    let metadata = &object["metadata"];
    let manifest = object["spec"]["workload"]["manifests"].get(0)?.clone();
    if manifest["metadata"]["namespace"] != NAMESPACE {
        return None;
    }
    Some(Work {
        uid: metadata["uid"].as_str()?.to_owned(),
        cluster: metadata["namespace"].as_str()?.strip_prefix(SPACE_PREFIX)?.to_owned(),
        binding: metadata["labels"][BINDING_ID].as_str().unwrap_or_default().to_owned(),
        object: format!("{}/{}", manifest["kind"].as_str()?, name(&manifest)),
        manifest,
        is_applied: has_condition(object, "Applied"),
        is_going: !metadata["deletionTimestamp"].is_null(),
    })
}

/// Reads the final state. Members that are not joined are ignored.
pub async fn take_stock(system: &SoakSystem, requested: &RequestedState) -> Result<FinalState, String> {
    let api = &system.replicas[0];
    let mut rest = FinalState::default();
    for (kind, path) in KINDS {
        for item in list(api, path).await? {
            let Some(policy) = item["metadata"]["labels"]["soak-policy"].as_str() else { continue };
            let number = policy.trim_start_matches('p').parse::<u64>().unwrap_or(u64::MAX);
            let overrides = requested.overrides.get(&number).cloned().into_iter().collect();
            let uid = item["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
            rest.templates.insert(format!("{kind}/{}", name(&item)), Template { uid, overrides, object: item });
        }
    }
    rest.bindings = list(api, BINDINGS).await?.iter().map(|item| (name(item), read_binding(item))).collect();
    rest.works = list(api, WORKS).await?.iter().filter_map(read_work).collect();
    for site in &system.members {
        rest.members.insert(site.name.clone(), holdings(site).await?);
    }
    Ok(rest)
}

async fn holdings(site: &SoakMember) -> Result<BTreeMap<String, Value>, String> {
    let mut held = BTreeMap::new();
    for (kind, path) in KINDS {
        for item in list(&site.api, &format!("{path}{MANAGED}")).await? {
            held.insert(format!("{kind}/{}", name(&item)), item);
        }
    }
    Ok(held)
}

async fn list(api: &Api, path: &str) -> Result<Vec<Value>, String> {
    match api.get(path).await {
        ApiAnswer::Done(list) => Ok(items(&list).to_vec()),
        other => Err(format!("{path}: {other:?}")),
    }
}

/// Returns the members that are ready according to the control plane.
pub async fn ready_members(system: &SoakSystem) -> Result<BTreeSet<String>, String> {
    let clusters = list(&system.replicas[0], CLUSTERS).await?;
    let is_ready = |cluster: &&Value| {
        let taints = cluster["spec"]["taints"].as_array().cloned().unwrap_or_default();
        has_condition(cluster, "Ready") && taints.is_empty()
    };
    Ok(clusters.iter().filter(is_ready).map(name).collect())
}
