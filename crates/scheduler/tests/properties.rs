//! Properties of every decision, for arbitrary clusters and bindings.

mod fixtures;

use std::collections::BTreeMap;

use api::work::{BindingSpec, BindingStatus, TargetCluster};
use fixtures::{Cluster, aggregated, binding, cluster, decide, dynamic, snapshot, static_weights};
use jiff::Timestamp;
use proptest::prelude::*;
use scheduler::{ScheduleError, SchedulerOptions};
use serde_json::{Value, json};

fn clusters(capacity: &[i32]) -> Vec<Cluster> {
    capacity.iter().enumerate().map(|(n, pods)| cluster(&format!("m{n:02}")).pods(*pods)).collect()
}

fn strategies() -> impl Strategy<Value = Value> {
    prop_oneof![Just(dynamic()), Just(aggregated())]
}

fn placed(capacity: &[i32], spec: &BindingSpec) -> Result<Vec<TargetCluster>, ScheduleError> {
    decide(&snapshot(&clusters(capacity)), spec, &BindingStatus::default(), &SchedulerOptions::default()).result
}

fn sum(targets: &[TargetCluster]) -> i32 {
    targets.iter().map(|target| target.replicas).sum()
}

fn by_name(targets: &[TargetCluster]) -> BTreeMap<String, i32> {
    targets.iter().map(|target| (target.name.clone(), target.replicas)).collect()
}

fn capacity_of(capacity: &[i32], name: &str) -> i32 {
    capacity[name[1..].parse::<usize>().expect("a number")]
}

proptest! {
    #[test]
    fn a_first_placement_is_complete_and_within_capacity(
        capacity in prop::collection::vec(0..40i32, 1..14),
        replicas in 1..120i32,
        strategy in strategies(),
    ) {
        let spec = binding(replicas, json!({"replicaScheduling": strategy}));
        match placed(&capacity, &spec) {
            Ok(targets) => {
                prop_assert_eq!(sum(&targets), replicas);
                for target in &targets {
                    prop_assert!(target.replicas > 0 && target.replicas <= capacity_of(&capacity, &target.name), "{:?}", targets);
                }
            }
            Err(ScheduleError::NotEnough(_)) => prop_assert!(capacity.iter().sum::<i32>() < replicas),
            Err(error) => prop_assert!(false, "{error}"),
        }
    }

    #[test]
    fn running_replicas_stay_and_only_the_difference_moves(
        capacity in prop::collection::vec(0..40i32, 2..10),
        had in prop::collection::vec(0..20i32, 2..10),
        replicas in 1..120i32,
        strategy in strategies(),
    ) {
        let had: Vec<TargetCluster> = had.iter().take(capacity.len()).enumerate()
            .filter(|(_, replicas)| **replicas > 0)
            .map(|(n, replicas)| TargetCluster { name: format!("m{n:02}"), replicas: *replicas, ..TargetCluster::default() }).collect();
        let mut spec = binding(replicas, json!({"replicaScheduling": strategy}));
        spec.clusters = had.clone();
        if let Ok(targets) = placed(&capacity, &spec) {
            prop_assert_eq!(sum(&targets), replicas);
            let (old, new) = (by_name(&had), by_name(&targets));
            let grows = sum(&had) <= replicas;
            for name in old.keys().chain(new.keys()) {
                let of = |list: &BTreeMap<String, i32>| list.get(name).copied().unwrap_or(0);
                // Scaling up never shrinks a cluster, scaling down never grows one.
                prop_assert!(if grows { of(&new) >= of(&old) } else { of(&new) <= of(&old) }, "{old:?} to {new:?}");
                prop_assert!(of(&new) <= of(&old) + capacity_of(&capacity, name), "{old:?} to {new:?}");
            }
            // Once placed, it needs no scheduling.
            spec.clusters = targets.clone();
            prop_assert_eq!(placed(&capacity, &spec).map(|targets| by_name(&targets)), Ok(new));
        } else {
            prop_assert!(sum(&had) + capacity.iter().sum::<i32>() < replicas);
        }
    }

    #[test]
    fn aggregated_uses_no_more_clusters_than_dynamic(
        capacity in prop::collection::vec(0..40i32, 1..10),
        replicas in 1..60i32,
    ) {
        let count = |strategy: Value| {
            let spec = binding(replicas, json!({"replicaScheduling": strategy}));
            placed(&capacity, &spec).map(|targets| targets.len())
        };
        if let (Ok(few), Ok(many)) = (count(aggregated()), count(dynamic())) {
            prop_assert!(few <= many);
        }
    }

    #[test]
    fn static_weights_add_up(
        weights in prop::collection::vec(0..9i64, 1..10),
        replicas in 1..200i32,
    ) {
        let names: Vec<String> = (0..weights.len()).map(|n| format!("m{n:02}")).collect();
        let list: Vec<(&str, i64)> = names.iter().map(String::as_str).zip(weights.iter().copied()).collect();
        let spec = binding(replicas, json!({"replicaScheduling": static_weights(&list)}));
        let targets = placed(&vec![0; weights.len()], &spec).expect("static weights always fit");
        prop_assert_eq!(sum(&targets), replicas);
        let is_standby = weights.iter().all(|weight| *weight == 0);
        if is_standby {
            prop_assert_eq!(targets.len(), 1);
            prop_assert_eq!(&targets[0].name, "m00");
        }
        for target in targets {
            prop_assert!(is_standby || weights[target.name[1..].parse::<usize>().expect("a number")] > 0);
        }
    }

    #[test]
    fn the_order_of_clusters_does_not_matter(
        capacity in prop::collection::vec(0..9i32, 2..10),
        replicas in 1..40i32,
        strategy in strategies(),
        turn in 0..10usize,
    ) {
        let spec = binding(replicas, json!({"replicaScheduling": strategy}));
        let mut all = clusters(&capacity);
        let first = decide(&snapshot(&all), &spec, &BindingStatus::default(), &SchedulerOptions::default());
        let turn = turn % all.len();
        all.rotate_left(turn);
        let turned = decide(&snapshot(&all), &spec, &BindingStatus::default(), &SchedulerOptions::default());
        prop_assert_eq!(&first, &turned);
        // Adding clusters one by one gives the same as adding all at once.
        let mut grown = scheduler::ClusterSnapshot::default();
        for cluster in &all {
            grown.put(&cluster.object()).expect("read");
        }
        grown.settle();
        prop_assert_eq!(first, decide(&grown, &spec, &BindingStatus::default(), &SchedulerOptions::default()));
    }

    #[test]
    fn a_burst_never_exceeds_capacity(
        capacity in prop::collection::vec(0..30i32, 1..6),
        burst in prop::collection::vec((1..12i32, any::<bool>()), 1..30),
    ) {
        let mut all = snapshot(&clusters(&capacity));
        let mut given: BTreeMap<String, i32> = BTreeMap::new();
        for (n, (replicas, few)) in burst.into_iter().enumerate() {
            let strategy = if few { aggregated() } else { dynamic() };
            let spec = binding(replicas, json!({"replicaScheduling": strategy}));
            let decision = decide(&all, &spec, &BindingStatus::default(), &SchedulerOptions::default());
            let left: i32 = capacity.iter().sum::<i32>() - given.values().sum::<i32>();
            match decision.result {
                Ok(targets) => {
                    all.reserve(&format!("b{n}"), &spec, &targets, Timestamp::UNIX_EPOCH);
                    for target in targets {
                        *given.entry(target.name).or_default() += target.replicas;
                    }
                }
                Err(_) => prop_assert!(left < replicas, "{left} are left for {replicas}"),
            }
        }
        for (name, replicas) in given {
            prop_assert!(replicas <= capacity_of(&capacity, &name), "{name} has {replicas}");
        }
    }
}
