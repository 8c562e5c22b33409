//! Feature gates with Karmada's names and defaults.

use std::fmt;

macro_rules! features {
    ($($(#[$doc:meta])* $field:ident $name:literal $default:literal $stage:ident,)*) => {
        /// What may be switched on and off.
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

            const STAGES: &[(&str, Stage)] = &[$(($name, Stage::$stage),)*];

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
    /// Not of Karmada: lost clusters are tainted without a policy, clusters without a usable node count as lost, nothing
    /// is removed on doubt, moves are remembered and can be undone.
    resilient_failover "ResilientFailover" false Own,
}

/// How settled a gate is in Karmada; whole stages can be switched at once.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Alpha,
    Beta,
    /// Not of Karmada, so none of its names for many gates means it.
    Own,
}

/// A `--feature-gates` text that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureError(String);

impl fmt::Display for FeatureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for FeatureError {}

impl Features {
    /// What a control plane does unless it is told to be like Karmada, whose defaults are `default`.
    pub fn flotilla() -> Self {
        Self { failover: true, stateful_failover_injection: true, resilient_failover: true, ..Self::default() }
    }

    /// Reads `A=true,B=false` over Karmada's defaults.
    pub fn parse(text: &str) -> Result<Self, FeatureError> {
        Self::default().with(text)
    }

    /// Reads `A=true,B=false` over these.
    pub fn with(self, text: &str) -> Result<Self, FeatureError> {
        let mut features = self;
        let mut single = Vec::new();
        // A gate that is named counts more than its stage, wherever in the text it stands.
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let Some((name, value)) = item.split_once('=') else {
                return Err(FeatureError(format!("{item:?} is not like Name=true or Name=false")));
            };
            let value =
                value.parse().map_err(|_| FeatureError(format!("{name} can be true or false, not {value:?}")))?;
            match name {
                "AllAlpha" => features.set_stage(Stage::Alpha, value),
                "AllBeta" => features.set_stage(Stage::Beta, value),
                _ => single.push((name, value)),
            }
        }
        for (name, value) in single {
            let Some(gate) = features.gate(name) else {
                let known = Self::NAMES.join(", ");
                return Err(FeatureError(format!(
                    "there is no feature gate {name:?}; there are {known}, AllAlpha, AllBeta"
                )));
            };
            *gate = value;
        }
        Ok(features)
    }

    fn set_stage(&mut self, stage: Stage, value: bool) {
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
    fn whole_stages_are_switched_at_once_and_named_gates_keep_their_own() {
        let features = Features::parse("Failover=false,AllAlpha=true,AllBeta=true").expect("valid");
        assert!(!features.failover && features.workload_affinity && features.multi_cluster_service);
        assert!(!features.resilient_failover, "it is not one of Karmada's");
        let features = Features::parse("AllBeta=false").expect("valid");
        assert!(!features.graceful_eviction && !features.workload_affinity);
    }
}
