//! Requests of pods and allocatable amounts of nodes: cpu, memory, disk and extended resources.

use std::sync::Arc;

use object::Object;
use object::quantity::Quantity;
use serde_json::Value;

/// Assumed milli-cpu of a container without a cpu request, for scoring.
const ASSUMED_MILLI_CPU: i64 = 100;
/// Assumed memory of a container without a memory request, for scoring: 200 MiB.
const ASSUMED_MEMORY: i64 = 200 * 1024 * 1024;

/// Amounts by resource: the three common ones as fields, others by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    pub milli_cpu: i64,
    pub memory: i64,
    pub ephemeral_storage: i64,
    /// Extended resources and huge pages, sorted by name.
    pub others: Vec<(Arc<str>, i64)>,
}

/// The requests of a pod, and the assumed amounts where it has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    pub asked: Amounts,
    /// Cpu and memory with the assumed amounts included, for scoring.
    pub assumed_milli_cpu: i64,
    pub assumed_memory: i64,
}

impl Amounts {
    /// Reads a `ResourceList`. `pods` is excluded: it is a separate count.
    pub fn read(list: Option<&Value>) -> Self {
        let mut amounts = Self::default();
        for (name, value) in list.and_then(Value::as_object).into_iter().flatten() {
            let Some(quantity) = read_quantity(value) else { continue };
            match name.as_str() {
                "cpu" => amounts.milli_cpu = quantity.milli_value(),
                "memory" => amounts.memory = quantity.value(),
                "ephemeral-storage" => amounts.ephemeral_storage = quantity.value(),
                "pods" => {}
                other => amounts.others.push((other.into(), quantity.value())),
            }
        }
        amounts.others.sort();
        amounts
    }

    pub fn other(&self, name: &str) -> i64 {
        self.others.iter().find(|(known, _)| **known == *name).map_or(0, |(_, amount)| *amount)
    }

    pub fn is_nothing(&self) -> bool {
        self.milli_cpu == 0 && self.memory == 0 && self.ephemeral_storage == 0 && self.others.iter().all(|o| o.1 == 0)
    }

    pub fn add(&mut self, more: &Self) {
        self.combine(more, i64::saturating_add);
    }

    pub fn subtract(&mut self, less: &Self) {
        self.combine(less, i64::saturating_sub);
        self.others.retain(|(_, amount)| *amount != 0);
    }

    fn raise_to(&mut self, least: &Self) {
        self.combine(least, i64::max);
    }

    fn combine(&mut self, other: &Self, with: impl Fn(i64, i64) -> i64) {
        self.milli_cpu = with(self.milli_cpu, other.milli_cpu);
        self.memory = with(self.memory, other.memory);
        self.ephemeral_storage = with(self.ephemeral_storage, other.ephemeral_storage);
        for (name, amount) in &other.others {
            match self.others.binary_search_by(|(known, _)| known.cmp(name)) {
                Ok(at) => self.others[at].1 = with(self.others[at].1, *amount),
                Err(at) => self.others.insert(at, (Arc::clone(name), with(0, *amount))),
            }
        }
    }
}

/// Maximum number of pods of a node.
pub fn read_pod_count(list: Option<&Value>) -> i64 {
    list.and_then(|list| list.get("pods")).and_then(read_quantity).map_or(0, |quantity| quantity.value())
}

fn read_quantity(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => Quantity::parse(text).ok(),
        Value::Number(number) => Quantity::parse(&number.to_string()).ok(),
        _ => None,
    }
}

impl Requests {
    /// The peak request of a pod: all containers and sidecars together, or one init container plus the sidecars
    /// started before it; overridden by pod-level requests, plus overhead.
    pub fn of(pod: &Object) -> Self {
        let asked = total(pod, Amounts::read);
        let assumed = total(pod, |list| {
            let mut amounts = Amounts::read(list);
            let says = |name: &str| list.is_some_and(|list| list.get(name).is_some());
            if !says("cpu") {
                amounts.milli_cpu = ASSUMED_MILLI_CPU;
            }
            if !says("memory") {
                amounts.memory = ASSUMED_MEMORY;
            }
            amounts
        });
        Self { asked, assumed_milli_cpu: assumed.milli_cpu, assumed_memory: assumed.memory }
    }
}

fn total(pod: &Object, read: impl Fn(Option<&Value>) -> Amounts) -> Amounts {
    let of = |container: &Value| read(container.get("resources").and_then(|r| r.get("requests")));
    let mut sum = Amounts::default();
    for container in pod.items(&["spec", "containers"]) {
        sum.add(&of(container));
    }
    let (mut sidecars, mut worst) = (Amounts::default(), Amounts::default());
    for container in pod.items(&["spec", "initContainers"]) {
        let mut needed = of(container);
        if container["restartPolicy"] == "Always" {
            sum.add(&needed);
            sidecars.add(&needed);
            needed = sidecars.clone();
        } else {
            needed.add(&sidecars);
        }
        worst.raise_to(&needed);
    }
    sum.raise_to(&worst);
    override_with(&mut sum, pod.get(&["spec", "resources", "requests"]));
    sum.add(&Amounts::read(pod.get(&["spec", "overhead"])));
    sum
}

/// Pod-level requests replace the sums of the containers.
fn override_with(sum: &mut Amounts, pod_level: Option<&Value>) {
    let Some(list) = pod_level else { return };
    let amounts = Amounts::read(Some(list));
    if list.get("cpu").is_some() {
        sum.milli_cpu = amounts.milli_cpu;
    }
    if list.get("memory").is_some() {
        sum.memory = amounts.memory;
    }
    for (name, amount) in amounts.others.into_iter().filter(|(name, _)| name.starts_with("hugepages-")) {
        match sum.others.binary_search_by(|(known, _)| known.cmp(&name)) {
            Ok(at) => sum.others[at].1 = amount,
            Err(at) => sum.others.insert(at, (name, amount)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(spec: Value, milli_cpu: i64, memory: i64) {
        let pod = Object::from_value(json!({"spec": spec})).expect("a map");
        let asked = Requests::of(&pod).asked;
        assert_eq!((asked.milli_cpu, asked.memory), (milli_cpu, memory), "{spec}");
    }

    fn container(cpu: &str, memory: &str) -> Value {
        json!({"resources": {"requests": {"cpu": cpu, "memory": memory}}})
    }

    fn sidecar(cpu: &str, memory: &str) -> Value {
        let mut container = container(cpu, memory);
        container["restartPolicy"] = "Always".into();
        container
    }

    #[test]
    fn a_pod_requests_its_peak() {
        check(json!({"containers": [container("100m", "10"), container("1", "5")]}), 1100, 15);
        let init = [container("2", "1"), container("1", "30")];
        check(json!({"containers": [container("1", "10")], "initContainers": init}), 2000, 30);
        // The init container after the sidecar runs along with it, the one before does not.
        let init = [container("2", "1"), sidecar("1", "1"), container("1500m", "1")];
        check(json!({"containers": [container("100m", "10")], "initContainers": init}), 2500, 11);
        let overhead = json!({"cpu": "250m"});
        check(json!({"containers": [container("1", "1")], "overhead": overhead}), 1250, 1);
        let whole = json!({"requests": {"cpu": "3"}});
        check(json!({"containers": [container("1", "7")], "resources": whole}), 3000, 7);
    }

    #[test]
    fn missing_requests_are_assumed_for_scoring_only() {
        let pod = Object::from_value(json!({"spec": {"containers": [{}, container("1", "1")]}})).expect("a map");
        let requests = Requests::of(&pod);
        assert_eq!(requests.asked.milli_cpu, 1000);
        assert_eq!((requests.assumed_milli_cpu, requests.assumed_memory), (1100, ASSUMED_MEMORY + 1));
    }

    #[test]
    fn subtracting_reverses_adding() {
        let mut sum = Amounts::read(Some(&json!({"cpu": "1", "a.com/gpu": "2"})));
        let before = sum.clone();
        let more = Amounts::read(Some(&json!({"memory": "1Gi", "a.com/gpu": 1, "b.com/x": 4})));
        sum.add(&more);
        assert_eq!((sum.other("a.com/gpu"), sum.other("b.com/x")), (3, 4));
        sum.subtract(&more);
        assert_eq!(sum, before);
    }
}
