//! The controllers of a real karmada-controller-manager and ours, with the same objects and equal members: what they write
//! is compared.

#[path = "karmada_controllers/autoscaling.rs"]
mod autoscaling;
#[path = "karmada_controllers/services.rs"]
mod services;
#[path = "karmada_controllers/side.rs"]
mod side;

use crate::side::Sides;

/// Karmada's control plane takes most of the time to start, so both comparisons share one.
#[test]
fn the_same_objects_lead_to_the_same_results_as_in_karmada() {
    let Some(sides) = Sides::start() else { return };
    let mut differences = services::compare(&sides);
    differences.extend(autoscaling::compare(&sides));
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
}
