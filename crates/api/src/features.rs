//! Feature gates with Karmada's names and defaults.

use std::fmt;

macro_rules! features {
    ($($(#[$doc:meta])* $field:ident $name:literal $default:literal $stage:ident,)*) => {
        /// The feature gates.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Features {
            $($(#[$doc])* pub $field: bool,)*
        }

        impl Default for Features {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        impl Features {
            pub const NAMES: &[&str] = &[$($name,)*];

            const STAGES: &[(&str, GateStage)] = &[$(($name, GateStage::$stage),)*];

            fn gate(&mut self, name: &str) -> Option<&mut bool> {
                match name {
                    $($name => Some(&mut self.$field),)*
                    _ => None,
                }
            }
        }
    };
}

features! {
    failover "Failover" false Beta,
    graceful_eviction "GracefulEviction" true Beta,
    propagate_deps "PropagateDeps" true Beta,
    resource_modeling "CustomizedClusterResourceModeling" true Beta,
    policy_preemption "PropagationPolicyPreemption" false Alpha,
    multi_cluster_service "MultiClusterService" false Alpha,
    resource_quota_estimate "ResourceQuotaEstimate" false Alpha,
    stateful_failover_injection "StatefulFailoverInjection" false Alpha,
    priority_based_scheduling "PriorityBasedScheduling" false Alpha,
    federated_quota_enforcement "FederatedQuotaEnforcement" false Alpha,
    multiple_pod_templates "MultiplePodTemplatesScheduling" false Alpha,
    controller_priority_queue "ControllerPriorityQueue" true Beta,
    workload_affinity "WorkloadAffinity" false Alpha,
    overcommit_protection "SchedulingOvercommitProtection" false Alpha,
    /// Flotilla's own: lost clusters are tainted without a policy, clusters without a usable node count as lost,
    /// nothing is removed in doubt, moves are recorded and can be reverted.
    resilient_failover "ResilientFailover" false Own,
    /// As in Karmada 1.19: a requested rescheduling begins at the first affinity group again.
    reschedule_from_first "RescheduleFromFirstAffinity" false Own,
    /// As in Karmada 1.19: bindings show the replicas of each component in `spec.clusters`.
    component_results "ComponentSchedulingResults" false Own,
    /// As in Karmada up to 1.18: the purge modes Immediately and Graciously are accepted.
    deprecated_purge_modes "DeprecatedPurgeModes" true Own,
}

/// The maturity stage of a gate in Karmada; whole stages can be switched at once.
#[derive(Clone, Copy, PartialEq, Eq)]
enum GateStage {
    Alpha,
    Beta,
    /// Flotilla's own; AllAlpha and AllBeta do not include it.
    Own,
}

/// An invalid `--feature-gates` value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureError(String);

impl fmt::Display for FeatureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for FeatureError {}

impl Features {
    /// Flotilla's defaults: those of Karmada 1.19, with failover, and with the older names of purge modes.
    pub fn flotilla() -> Self {
        Self {
            failover: true,
            stateful_failover_injection: true,
            resilient_failover: true,
            multi_cluster_service: true,
            deprecated_purge_modes: true,
            ..Self::karmada_1_19()
        }
    }

    /// The defaults of Karmada 1.19; those of 1.18 are `default`.
    pub fn karmada_1_19() -> Self {
        Self {
            priority_based_scheduling: true,
            reschedule_from_first: true,
            component_results: true,
            deprecated_purge_modes: false,
            ..Self::default()
        }
    }

    /// Parses `A=true,B=false` over Karmada's defaults.
    pub fn parse(text: &str) -> Result<Self, FeatureError> {
        Self::default().with(text)
    }

    /// Parses `A=true,B=false` over these values.
    pub fn with(self, text: &str) -> Result<Self, FeatureError> {
        let mut features = self;
        let mut single = Vec::new();
        // A gate that is named takes precedence over its stage, regardless of order.
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let Some((name, value)) = item.split_once('=') else {
                return Err(FeatureError(format!("{item:?} is not like Name=true or Name=false")));
            };
            let value =
                value.parse().map_err(|_| FeatureError(format!("{name} can be true or false, not {value:?}")))?;
            match name {
                "AllAlpha" => features.set_stage(GateStage::Alpha, value),
                "AllBeta" => features.set_stage(GateStage::Beta, value),
                _ => single.push((name, value)),
            }
        }
        for (name, value) in single {
            let Some(gate) = features.gate(name) else {
                let known = Self::NAMES.join(", ");
                return Err(FeatureError(format!(
                    "unknown feature gate {name:?}; known gates: {known}, AllAlpha, AllBeta"
                )));
            };
            *gate = value;
        }
        Ok(features)
    }

    fn set_stage(&mut self, stage: GateStage, value: bool) {
        for (name, _) in Self::STAGES.iter().filter(|(_, of)| *of == stage) {
            if let Some(gate) = self.gate(name) {
                *gate = value;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_are_read_over_the_defaults_and_unknown_ones_refused() {
        let features = Features::parse("Failover=true,PropagateDeps=false").expect("valid");
        assert!(features.failover && !features.propagate_deps && features.graceful_eviction);
        for bad in ["Failover", "Failover=maybe", "Nothing=true"] {
            assert!(Features::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn stages_are_switched_at_once_and_named_gates_take_precedence() {
        let features = Features::parse("Failover=false,AllAlpha=true,AllBeta=true").expect("valid");
        assert!(!features.failover && features.workload_affinity && features.multi_cluster_service);
        assert!(!features.resilient_failover, "it is not one of Karmada's");
        let features = Features::parse("AllBeta=false").expect("valid");
        assert!(!features.graceful_eviction && !features.workload_affinity);
    }
}
