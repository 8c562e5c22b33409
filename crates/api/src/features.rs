//! Feature gates with Karmada's names and defaults.

use std::fmt;

macro_rules! features {
    ($($(#[$doc:meta])* $field:ident $name:literal $default:literal,)*) => {
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
    failover "Failover" false,
    graceful_eviction "GracefulEviction" true,
    propagate_deps "PropagateDeps" true,
    resource_modeling "CustomizedClusterResourceModeling" true,
    policy_preemption "PropagationPolicyPreemption" false,
    multi_cluster_service "MultiClusterService" false,
    resource_quota_estimate "ResourceQuotaEstimate" false,
    stateful_failover_injection "StatefulFailoverInjection" false,
    priority_based_scheduling "PriorityBasedScheduling" false,
    federated_quota_enforcement "FederatedQuotaEnforcement" false,
    multiple_pod_templates "MultiplePodTemplatesScheduling" false,
    controller_priority_queue "ControllerPriorityQueue" true,
    workload_affinity "WorkloadAffinity" false,
    overcommit_protection "SchedulingOvercommitProtection" false,
    /// Not of Karmada: lost clusters are tainted without a policy, clusters without a usable node count as lost, nothing
    /// is removed on doubt, moves are remembered and can be undone.
    resilient_failover "ResilientFailover" false,
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
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let Some((name, value)) = item.split_once('=') else {
                return Err(FeatureError(format!("{item:?} is not like Name=true or Name=false")));
            };
            let value =
                value.parse().map_err(|_| FeatureError(format!("{name} can be true or false, not {value:?}")))?;
            let Some(gate) = features.gate(name) else {
                let known = Self::NAMES.join(", ");
                return Err(FeatureError(format!("there is no feature gate {name:?}; there are {known}")));
            };
            *gate = value;
        }
        Ok(features)
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
}
