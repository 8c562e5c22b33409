//! Checks that members have exactly the decided state, and that no undecided change happened on the way there.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::writes::Violation;
use super::{Micros, Revision};

/// Deleting a work is an error, and not a race, only after its binding has included the cluster for this long.
const SETTLED: Micros = 2_000_000;

/// The final state. Objects are named `Kind/name` in one namespace.
#[derive(Clone, Debug, Default)]
pub struct FinalState {
    /// Templates that a policy selects.
    pub templates: BTreeMap<String, Template>,
    pub bindings: BTreeMap<String, Binding>,
    pub works: Vec<Work>,
    /// Objects with our label, by member.
    pub members: BTreeMap<String, BTreeMap<String, Value>>,
}

#[derive(Clone, Debug, Default)]
pub struct Template {
    pub uid: String,
    /// The annotation value by member, set by override policies.
    pub overrides: BTreeMap<String, String>,
    pub object: Value,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    /// The permanent id in the labels of its works.
    pub id: String,
    pub template: String,
    pub template_uid: String,
    /// The replicas assigned to each cluster, if they were divided.
    pub targets: BTreeMap<String, Option<i64>>,
    pub evicting: BTreeSet<String>,
    pub is_going: bool,
    /// Its own condition.
    #[serde(default)]
    pub is_applied: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Work {
    pub uid: String,
    pub cluster: String,
    pub binding: String,
    pub object: String,
    pub manifest: Value,
    pub is_applied: bool,
    pub is_going: bool,
}

/// An observed change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "step")]
pub enum Observation {
    /// A binding, ordered by the control plane's revisions; `None` if it was deleted.
    Bound { at: Micros, revision: Revision, name: String, binding: Option<Binding> },
    /// A member that joins or leaves, in the same order.
    Member { at: Micros, revision: Revision, cluster: String, is_going: bool },
    /// A work in the same order. `print` is a fingerprint of its manifest.
    Worked { at: Micros, revision: Revision, cluster: String, object: String, binding: String, work: ObservedWork },
    /// An object in a member.
    Held { at: Micros, cluster: String, object: String, uid: String, generation: i64, print: String },
    /// An object was deleted from the member.
    Dropped { at: Micros, cluster: String, object: String, uid: String },
    /// Events may have been missed: checks that need all of them are skipped.
    Missed { at: Micros, what: String },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedWork {
    pub uid: String,
    pub generation: i64,
    pub print: String,
    pub is_going: bool,
}

/// Returns all differences from the decided state. Empty once everything has converged.
pub fn check_final_state(rest: &FinalState) -> Vec<Violation> {
    let mut found = Vec::new();
    check_bindings(rest, &mut found);
    check_works(rest, &mut found);
    check_members(rest, &mut found);
    found
}

fn check_bindings(rest: &FinalState, found: &mut Vec<Violation>) {
    let mut add = |what: String| found.push(Violation { rule: "bindings are of templates", what });
    let by_template: BTreeMap<&str, &Binding> =
        rest.bindings.values().map(|binding| (binding.template.as_str(), binding)).collect();
    for (name, template) in &rest.templates {
        match by_template.get(name.as_str()) {
            None => add(format!("{name} has no binding")),
            Some(binding) if binding.template_uid != template.uid => {
                add(format!("the binding of {name} refers to an earlier {name} ({})", binding.template_uid));
            }
            Some(_) => {}
        }
    }
    for (name, binding) in &rest.bindings {
        if !rest.templates.contains_key(&binding.template) {
            add(format!("binding {name} refers to {}, which does not exist", binding.template));
        }
        if binding.is_going {
            add(format!("binding {name} is being deleted and still exists"));
        }
        if !binding.is_applied && !binding.targets.is_empty() {
            add(format!("binding {name} is not reported as fully applied"));
        }
        if !binding.evicting.is_empty() {
            add(format!("binding {name} still evicts from {:?}", binding.evicting));
        }
    }
}

fn check_works(rest: &FinalState, found: &mut Vec<Violation>) {
    let mut add = |what: String| found.push(Violation { rule: "works are of bindings", what });
    let by_id: BTreeMap<&str, (&String, &Binding)> =
        rest.bindings.iter().map(|(name, binding)| (binding.id.as_str(), (name, binding))).collect();
    let mut have: BTreeSet<(&str, &str)> = BTreeSet::new();
    for work in &rest.works {
        let Work { cluster, object, .. } = work;
        let Some((name, binding)) = by_id.get(work.binding.as_str()) else {
            add(format!("the work of {object} for {cluster} has no binding"));
            continue;
        };
        if !have.insert((name, cluster)) {
            add(format!("{name} has two works for {cluster}"));
        }
        let Some(replicas) = binding.targets.get(cluster) else {
            add(format!("{name} has a work for {cluster}, which is not a target"));
            continue;
        };
        if work.is_going || !work.is_applied {
            add(format!("the work of {object} for {cluster} is not applied, or is being deleted"));
        }
        let template = rest.templates.get(&binding.template);
        if let Some(difference) = template.and_then(|template| differs_from(template, work, *replicas)) {
            add(format!("the work of {object} for {cluster} does not match its template: {difference}"));
        }
    }
    for (name, binding) in &rest.bindings {
        for cluster in binding.targets.keys().filter(|cluster| !have.contains(&(name.as_str(), cluster.as_str()))) {
            add(format!("{name} has no work for {cluster}"));
        }
    }
}

/// Returns how a work's manifest differs from template, decision and overrides.
fn differs_from(template: &Template, work: &Work, replicas: Option<i64>) -> Option<String> {
    let (overrides, template, manifest) = (&template.overrides, &template.object, &work.manifest);
    let (is, should) = (manifest.pointer("/metadata/annotations/soak~1override"), overrides.get(&work.cluster));
    if is.and_then(Value::as_str) != should.map(String::as_str) {
        return Some(format!("the override is {} and should be {should:?}", text(is)));
    }
    for pointer in ["/data", "/spec/template/spec", "/metadata/annotations/soak~1value"] {
        let (is, should) = (manifest.pointer(pointer), template.pointer(pointer));
        if is != should {
            return Some(format!("{pointer} is {} and should be {}", text(is), text(should)));
        }
    }
    let should = replicas.or_else(|| template.pointer("/spec/replicas")?.as_i64());
    let is = manifest.pointer("/spec/replicas").and_then(Value::as_i64);
    (is != should).then(|| format!("replicas are {is:?} and should be {should:?}"))
}

fn check_members(rest: &FinalState, found: &mut Vec<Violation>) {
    let mut add = |what: String| found.push(Violation { rule: "members match their works", what });
    let nothing = BTreeMap::new();
    let mut wanted: BTreeSet<(&str, &str)> = BTreeSet::new();
    for work in &rest.works {
        wanted.insert((&work.cluster, &work.object));
        let held = rest.members.get(&work.cluster).unwrap_or(&nothing).get(&work.object);
        match held {
            None => add(format!("{} has no {}", work.cluster, work.object)),
            Some(held) => {
                if let Some(difference) = lacks(&work.manifest, held, "") {
                    add(format!("{} has a different {}: {difference}", work.cluster, work.object));
                }
            }
        }
    }
    for (cluster, objects) in &rest.members {
        for object in objects.keys().filter(|object| !wanted.contains(&(cluster.as_str(), object.as_str()))) {
            add(format!("{cluster} has {object}, which is in no work"));
        }
    }
}

/// Returns the first path at which the object differs from the decided state. Fields added by the member are ignored.
fn lacks(decided: &Value, held: &Value, path: &str) -> Option<String> {
    match (decided, held) {
        (Value::Object(decided), Value::Object(held)) => decided
            .iter()
            // Items of lists have no apiVersion and kind; the status belongs to the member.
            .filter(|(name, _)| !(path.is_empty() && ["apiVersion", "kind", "status"].contains(&name.as_str())))
            .find_map(|(name, value)| lacks(value, held.get(name).unwrap_or(&Value::Null), &format!("{path}/{name}"))),
        (Value::Array(decided), Value::Array(held)) if decided.len() == held.len() => {
            decided.iter().zip(held).find_map(|(decided, held)| lacks(decided, held, path))
        }
        _ if decided == held || decided.is_null() => None,
        _ => Some(format!("{path} is {held} and should be {decided}")),
    }
}

fn text(value: Option<&Value>) -> String {
    value.map_or_else(|| "nothing".to_owned(), Value::to_string)
}

/// Returns all undecided changes.
pub fn check_steps(steps: &[Observation], rest: &FinalState) -> Vec<Violation> {
    let mut found = Vec::new();
    check_dropped(steps, rest, &mut found);
    let is_whole = !steps.iter().any(|step| matches!(step, Observation::Missed { .. }));
    if is_whole {
        check_works_taken(steps, &mut found);
        check_order(steps, &mut found);
        check_churn(steps, &mut found);
    }
    found
}

/// A work that exists at the end and existed before was desired all the time, because a deletion cannot be reverted.
/// A member may be seen to delete an object of the previous work shortly after the new one was created, but not one
/// written by the new work.
fn check_dropped(steps: &[Observation], rest: &FinalState, found: &mut Vec<Violation>) {
    let mut first_seen: BTreeMap<&str, Micros> = BTreeMap::new();
    for step in steps {
        if let Observation::Worked { at, work, .. } = step {
            first_seen.entry(&work.uid).or_insert(*at);
        }
    }
    // When a work of an object was last seen being deleted, and the current object.
    let mut going: BTreeMap<(&str, &str), Micros> = BTreeMap::new();
    let mut held: BTreeMap<&str, Micros> = BTreeMap::new();
    for step in steps {
        let (at, cluster, object, uid) = match step {
            Observation::Dropped { at, cluster, object, uid } => (at, cluster, object, uid),
            Observation::Worked { at, cluster, object, work, .. } if work.is_going => {
                going.insert((cluster, object), *at);
                continue;
            }
            Observation::Held { at, uid, .. } => {
                held.insert(uid, *at);
                continue;
            }
            _ => continue,
        };
        let goes_with_another = |seen: Micros| {
            going.get(&(cluster.as_str(), object.as_str())).is_some_and(|gone| gone + SETTLED >= *at)
                && held.get(uid.as_str()).is_none_or(|held| *held < seen)
        };
        let wanted = rest.works.iter().find(|work| {
            work.cluster == *cluster
                && work.object == *object
                && !work.is_going
                && first_seen.get(work.uid.as_str()).is_some_and(|seen| seen < at && !goes_with_another(*seen))
        });
        if let Some(work) = wanted {
            let what = format!("{cluster} lost {object} at {at} µs, while work {} included it", work.uid);
            found.push(Violation { rule: "deleted while decided", what });
        }
    }
}

/// Works are deleted only from clusters that their binding no longer includes, or that leave. All share one order of
/// revisions.
fn check_works_taken(steps: &[Observation], found: &mut Vec<Violation>) {
    let mut order: Vec<(Revision, &Observation)> = steps
        .iter()
        .filter_map(|step| match step {
            Observation::Bound { revision, .. }
            | Observation::Member { revision, .. }
            | Observation::Worked { revision, .. } => Some((*revision, step)),
            _ => None,
        })
        .collect();
    order.sort_by_key(|(revision, _)| *revision);
    // By permanent id: since when each cluster is included.
    let mut wanted: BTreeMap<&str, BTreeMap<&str, Micros>> = BTreeMap::new();
    let mut id_of: BTreeMap<&str, &str> = BTreeMap::new();
    let mut going: BTreeSet<&str> = BTreeSet::new();
    // Users may remove a member at any time.
    let mut leaving: BTreeSet<&str> = BTreeSet::new();
    for (_, step) in order {
        match step {
            Observation::Member { cluster, is_going, .. } => {
                if *is_going {
                    leaving.insert(cluster);
                } else {
                    leaving.remove(cluster.as_str());
                }
            }
            Observation::Bound { name, binding: None, .. } => {
                if let Some(id) = id_of.remove(name.as_str()) {
                    wanted.remove(id);
                }
            }
            Observation::Bound { at, name, binding: Some(binding), .. } => {
                id_of.insert(name, &binding.id);
                let before = wanted.remove(binding.id.as_str()).unwrap_or_default();
                if !binding.is_going {
                    let now = binding.targets.keys().chain(&binding.evicting);
                    let since =
                        now.map(|cluster| (cluster.as_str(), before.get(cluster.as_str()).copied().unwrap_or(*at)));
                    wanted.insert(&binding.id, since.collect());
                }
            }
            Observation::Worked { at, cluster, object, binding, work, .. }
                if work.is_going && going.insert(&work.uid) =>
            {
                let since = wanted.get(binding.as_str()).and_then(|clusters| clusters.get(cluster.as_str()));
                if since.is_some_and(|since| since + SETTLED < *at) && !leaving.contains(cluster.as_str()) {
                    let what = format!("the work of {object} for {cluster} was deleted while its binding included it");
                    found.push(Violation { rule: "deleted while decided", what });
                }
            }
            _ => {}
        }
    }
}

/// A member never returns to an earlier decision, nor to a state that was never decided.
fn check_order(steps: &[Observation], found: &mut Vec<Violation>) {
    let mut decided: BTreeMap<(&str, &str), Vec<(Revision, &str)>> = BTreeMap::new();
    let mut held: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for step in steps {
        match step {
            Observation::Worked { revision, cluster, object, work, .. } if !work.is_going => {
                decided.entry((cluster, object)).or_default().push((*revision, &work.print));
            }
            Observation::Held { cluster, object, print, .. } => {
                let prints = held.entry((cluster, object)).or_default();
                if prints.last() != Some(&print.as_str()) {
                    prints.push(print);
                }
            }
            _ => {}
        }
    }
    for ((cluster, object), prints) in held {
        let mut decisions = decided.remove(&(cluster, object)).unwrap_or_default();
        decisions.sort_unstable();
        let mut decisions = decisions.iter().map(|(_, print)| *print);
        for print in &prints {
            if !decisions.any(|decision| decision == *print) {
                let what = format!("{cluster} had {object} as {print} out of order: {prints:?}");
                found.push(Violation { rule: "applied what was decided", what });
                break;
            }
        }
    }
}

/// A member's object is not written more often than its work changed.
fn check_churn(steps: &[Observation], found: &mut Vec<Violation>) {
    let mut decisions: BTreeMap<(&str, &str), BTreeMap<&str, i64>> = BTreeMap::new();
    let mut written: BTreeMap<(&str, &str, &str), i64> = BTreeMap::new();
    for step in steps {
        match step {
            Observation::Worked { cluster, object, work, .. } => {
                let of_work = decisions.entry((cluster, object)).or_default().entry(&work.uid).or_default();
                *of_work = (*of_work).max(work.generation);
            }
            Observation::Held { cluster, object, uid, generation, .. } => {
                let of_uid = written.entry((cluster, object, uid)).or_default();
                *of_uid = (*of_uid).max(*generation);
            }
            _ => {}
        }
    }
    for ((cluster, object, _), generation) in written {
        let allowed: i64 = decisions.get(&(cluster, object)).map_or(0, |works| works.values().sum());
        if generation > allowed {
            let what = format!("{cluster} has generation {generation} of {object}, decided {allowed} times");
            found.push(Violation { rule: "applied once", what });
        }
    }
}
