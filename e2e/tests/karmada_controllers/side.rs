//! Two control planes with two light members each: Karmada's and ours.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use e2e::fleet::{READY, run, text};
use e2e::flotilla::{Flotilla, binary, kubectl, programs};
use e2e::karmada_plane::KarmadaPlane;
use e2e::light_member::LightMember;
use e2e::member;
use e2e::normalize::normalize;
use regex::Regex;
use serde_json::Value;

/// Maximum time until both sides have reached the same state.
const LIMIT: Duration = Duration::from_secs(120);
pub const MEMBERS: [&str; 2] = ["member1", "member2"];

/// Flags of both controller managers: clusters are observed every two seconds, metrics every second, and pods count at once.
const FLAGS: &[&str] = &[
    "--feature-gates=MultiClusterService=true",
    "--cluster-success-threshold=1s",
    "--cluster-status-update-frequency=2s",
    "--horizontal-pod-autoscaler-sync-period=1s",
    "--horizontal-pod-autoscaler-downscale-stabilization=2s",
    "--horizontal-pod-autoscaler-cpu-initialization-period=0s",
    "--horizontal-pod-autoscaler-initial-readiness-delay=0s",
];

/// Failures that are tried again; whether one happens depends on the speed of the machine.
const TRANSIENT: &[&str] = &[
    "already exists",
    "the object has been modified",
    "no answer within",
    "DispatchEndpointSliceFailed: works.work.karmada.io",
];

/// Values by title.
pub type View = BTreeMap<String, String>;

/// A control plane with its members.
pub struct Side {
    pub kubeconfig: PathBuf,
    pub members: Vec<LightMember>,
}

pub struct Sides {
    pub ours: Side,
    pub theirs: Side,
    _flotilla: Flotilla,
    karmada: KarmadaPlane,
}

impl Sides {
    /// `None` if the programs are not installed.
    pub fn start() -> Option<Self> {
        if !programs().join("karmada-metrics-adapter").exists() {
            let place = programs();
            test_skip::skip(format_args!(
                "karmada-metrics-adapter is not in {}; `make test` builds it",
                place.display()
            ));
            return None;
        }
        let flags = FLAGS.join(" ");
        let (karmada, flotilla, members) = std::thread::scope(|scope| {
            let karmada =
                scope.spawn(|| KarmadaPlane::start_with(&["--metrics", "yes", "--controllers", flags.as_str()]));
            let members = scope.spawn(|| (0..4).map(|_| LightMember::start(&[])).collect::<Vec<_>>());
            let flotilla = Flotilla::start_with(&[&["--compat", "karmada-1.18"], FLAGS].concat());
            (karmada.join().expect("Karmada starts"), flotilla, members.join().expect("members start"))
        });
        let karmada = karmada?;
        let mut members = members.into_iter();
        let mut side = |kubeconfig: PathBuf| Side { kubeconfig, members: members.by_ref().take(2).collect() };
        let (ours, theirs) = (side(flotilla.kubeconfig.clone()), side(karmada.kubeconfig()));
        for side in [&ours, &theirs] {
            side.join_members();
        }
        Some(Self { ours, theirs, _flotilla: flotilla, karmada })
    }

    /// Applies documents on both sides; both must accept them.
    pub fn apply(&self, documents: &str) {
        for side in [&self.ours, &self.theirs] {
            let output = member::apply(&side.kubeconfig, &["apply", "-f", "-"], documents);
            assert!(output.status.success(), "{}", text(&output));
        }
    }

    /// Runs kubectl on both sides; it must succeed.
    pub fn kubectl(&self, arguments: &[&str]) {
        for side in [&self.ours, &self.theirs] {
            let output = kubectl(&side.kubeconfig, arguments);
            assert!(output.status.success(), "{arguments:?}: {}", text(&output));
        }
    }

    /// Waits until a condition holds on both sides.
    pub fn wait(&self, what: &str, holds: impl Fn(&Side) -> bool) {
        for (name, side) in [("our plane", &self.ours), ("Karmada", &self.theirs)] {
            let started = Instant::now();
            while !holds(side) {
                assert!(started.elapsed() < LIMIT, "{name}: timed out: {what}\n{}", self.state(side));
                std::thread::sleep(Duration::from_millis(200));
            }
        }
    }

    /// Waits until both sides show the same, and returns the differences that remain.
    pub fn compare(&self, view: impl Fn(&Side) -> View) -> Vec<String> {
        let started = Instant::now();
        loop {
            let differences = differences(&view(&self.ours), &view(&self.theirs));
            if differences.is_empty() || started.elapsed() > LIMIT / 3 {
                return differences;
            }
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    fn state(&self, side: &Side) -> String {
        let log = std::fs::read_to_string(self.karmada.directory().join("karmada-controller-manager.log"));
        let log = log.unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let objects = side.ask(&["get", "clusters,deploy,svc,rb,fhpa,mcs,works,events", "-A", "-o=wide"]);
        format!("{objects}\n{}", lines[lines.len().saturating_sub(30)..].join("\n"))
    }
}

impl Side {
    fn join_members(&self) {
        for (name, member) in MEMBERS.iter().zip(&self.members) {
            let kubeconfig = member.kubeconfig.to_str().expect("a path in UTF-8");
            let joined = run(&binary(), &self.kubeconfig, &["join", name, "--cluster-kubeconfig", kubeconfig]);
            assert!(joined.status.success(), "{}", text(&joined));
        }
        for name in MEMBERS {
            e2e::eventually::eventually("a cluster is ready", LIMIT, || {
                self.ask(&["get", "cluster", name, READY]) == "True"
            });
        }
    }

    /// Returns the trimmed output of kubectl; empty on failure.
    pub fn ask(&self, arguments: &[&str]) -> String {
        String::from_utf8_lossy(&kubectl(&self.kubeconfig, arguments).stdout).trim().to_owned()
    }

    /// The objects kubectl finds on the control plane.
    pub fn objects(&self, arguments: &[&str]) -> Vec<Value> {
        objects(&self.kubeconfig, arguments)
    }

    /// Adds the events of objects of a kind, without their number and times.
    pub fn add_events(&self, view: &mut View, kind: &str) {
        let mut lines: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for event in self.objects(&["events", "-n=default", &format!("--field-selector=involvedObject.kind={kind}")]) {
            let part = |field: &str| event[field].as_str().unwrap_or_default().to_owned();
            let by = event["source"]["component"].as_str().or(event["reportingComponent"].as_str());
            let line = format!("{} {} {}: {}", by.unwrap_or_default(), part("type"), part("reason"), part("message"));
            if TRANSIENT.iter().any(|text| line.contains(text)) {
                continue;
            }
            let name = event["involvedObject"]["name"].as_str().unwrap_or_default();
            lines.entry(format!("events of {kind} {name}")).or_default().push(without_names(&line));
        }
        for (title, mut found) in lines {
            found.sort();
            found.dedup();
            view.insert(title, found.join("\n"));
        }
    }
}

/// The objects kubectl finds in a cluster.
pub fn objects(kubeconfig: &Path, arguments: &[&str]) -> Vec<Value> {
    let output = kubectl(kubeconfig, &[&["get", "-o=json"], arguments].concat());
    let list: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    list["items"].as_array().cloned().unwrap_or_default()
}

/// An object as text, without what differs between two clusters.
pub fn shown(object: &Value) -> String {
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for field in ["uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"] {
            metadata.remove(field);
        }
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
            // Clusters are in no order there.
            annotations.remove("policy.karmada.io/applied-placement");
        }
    }
    if let Some(names) = object["spec"]["placement"]["clusterAffinity"]["clusterNames"].as_array_mut() {
        names.sort_by(|one, other| one.as_str().cmp(&other.as_str()));
    }
    without_empty(&mut object);
    without_names(&normalize(&object.to_string()))
}

/// Removes what Go writes for fields without a value, how often a binding was scheduled, and generated prefixes of names.
fn without_empty(value: &mut Value) {
    const IGNORED: [&str; 2] = ["generateName", "schedulerObservedGeneration"];
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(without_empty);
            fields.retain(|name, value| {
                let is_empty = value.is_null()
                    || value == 0
                    || value == ""
                    || value.as_object().is_some_and(serde_json::Map::is_empty);
                !is_empty && !IGNORED.contains(&name.as_str())
            });
        }
        Value::Array(items) => {
            items.iter_mut().for_each(without_empty);
            items.retain(|item| !item.as_object().is_some_and(serde_json::Map::is_empty));
        }
        _ => {}
    }
}

/// Replaces generated names, hashes and addresses.
pub fn without_names(text: &str) -> String {
    static RULES: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
        let rules = [
            // The Work of a slice, a pod of a Deployment, a slice.
            (r"\b([a-z-]+)-[a-z0-9]{5}-[a-z0-9]{8,10}\b", "$1-SLICE-HASH"),
            (r"\b([a-z-]+)-[a-z0-9]{8,10}-[a-z0-9]{5}\b", "$1-POD"),
            (r"\b(web|partial)-[a-z0-9]{5}\b", "$1-SLICE"),
            (r"\b10\.\d+\.\d+\.\d+\b|\bCLUSTER-IP\b", "ADDRESS"),
        ];
        rules.into_iter().map(|(rule, with)| (Regex::new(rule).expect("a valid pattern"), with)).collect()
    });
    RULES.iter().fold(text.to_owned(), |text, (rule, with)| rule.replace_all(&text, *with).into_owned())
}

fn differences(ours: &View, theirs: &View) -> Vec<String> {
    let titles: std::collections::BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
    let differs = |title: &&&String| ours.get(**title) != theirs.get(**title);
    let one = |title: &String| {
        let lines = |view: &View| view.get(title).map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>());
        let (ours, theirs) = (lines(ours).unwrap_or_default(), lines(theirs).unwrap_or_default());
        let only = |these: &[String], others: &[String], sign: &str| {
            let only: Vec<String> =
                these.iter().filter(|line| !others.contains(line)).map(|line| format!("  {sign} {line}")).collect();
            only.join("\n")
        };
        format!("{title}\n{}\n{}", only(&ours, &theirs, "ours:"), only(&theirs, &ours, "Karmada:"))
    };
    titles.iter().filter(differs).map(|title| one(title)).collect()
}
