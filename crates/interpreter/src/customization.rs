//! ResourceInterpreterCustomizations by kind: for each operation the first one by name that has a script is used.

use std::collections::HashMap;
use std::sync::Arc;

use api::config::{CustomizationRules, CustomizationSpec, DependentObjectReference, LuaRule};
use api::work::{AggregatedStatusItem, Component, ReplicaRequirements};
use object::Object;
use serde_json::Value;

use crate::dependency;
use crate::lua::{Module, Vm};
use crate::operation::{InterpretResult, Operation};
use crate::pod;

/// The scripts for one kind.
#[derive(Default)]
struct Scripts {
    by_operation: HashMap<Operation, Arc<str>>,
    /// Dependencies are the one operation that all customizations contribute to.
    dependencies: Vec<Arc<str>>,
}

/// All customizations of one tier, and the Lua states they run in.
pub struct Customizations {
    /// By apiVersion, then kind.
    kinds: HashMap<String, HashMap<String, Scripts>>,
    vm: Vm,
}

/// The script for an operation in the rules of a customization.
pub fn script_of(rules: &CustomizationRules, operation: Operation) -> Option<&str> {
    let rule: &Option<LuaRule> = match operation {
        Operation::InterpretReplica => &rules.replica_resource,
        Operation::InterpretComponent => &rules.component_resource,
        Operation::ReviseReplica => &rules.replica_revision,
        Operation::Retain => &rules.retention,
        Operation::AggregateStatus => &rules.status_aggregation,
        Operation::InterpretDependency => &rules.dependency_interpretation,
        Operation::InterpretStatus => &rules.status_reflection,
        Operation::InterpretHealth => &rules.health_interpretation,
    };
    rule.as_ref().map(|rule| rule.lua_script.as_str()).filter(|script| !script.is_empty())
}

impl Customizations {
    /// An invalid customization is ignored; admission rejects them.
    pub fn new<'a>(
        objects: impl Iterator<Item = &'a Object>,
        options: pod::PodOptions,
        modules: &'static [Module],
    ) -> Self {
        let mut sorted: Vec<&Object> = objects.collect();
        sorted.sort_by_key(|object| object.name());
        let mut kinds: HashMap<String, HashMap<String, Scripts>> = HashMap::new();
        for object in sorted {
            let Ok(spec) = api::read::<CustomizationSpec>(object) else {
                tracing::warn!(name = object.name(), "customization cannot be read");
                continue;
            };
            let scripts = kinds.entry(spec.target.api_version).or_default().entry(spec.target.kind).or_default();
            for operation in Operation::ALL {
                let Some(script) = script_of(&spec.customizations, operation) else { continue };
                if operation == Operation::InterpretDependency {
                    scripts.dependencies.push(script.into());
                }
                scripts.by_operation.entry(operation).or_insert_with(|| script.into());
            }
        }
        Self { kinds, vm: Vm::new(options, modules) }
    }

    fn scripts(&self, api_version: &str, kind: &str) -> Option<&Scripts> {
        self.kinds.get(api_version)?.get(kind)
    }

    pub fn has_hook(&self, api_version: &str, kind: &str, operation: Operation) -> bool {
        self.scripts(api_version, kind).is_some_and(|scripts| scripts.by_operation.contains_key(&operation))
    }

    fn script(&self, object: &Object, operation: Operation) -> Option<&Arc<str>> {
        self.scripts(object.api_version(), object.kind())?.by_operation.get(&operation)
    }

    // Each of these is `None` if no customization applies.

    pub fn replicas(&self, object: &Object) -> Option<InterpretResult<(i32, Option<ReplicaRequirements>)>> {
        let script = self.script(object, Operation::InterpretReplica)?;
        Some(self.vm.replicas(script, object))
    }

    pub fn components(&self, object: &Object) -> Option<InterpretResult<Vec<Component>>> {
        let script = self.script(object, Operation::InterpretComponent)?;
        Some(self.vm.components(script, object))
    }

    pub fn revise_replicas(&self, object: &Object, replicas: i64) -> Option<InterpretResult<Object>> {
        let script = self.script(object, Operation::ReviseReplica)?;
        Some(self.vm.revise_replicas(script, object, replicas))
    }

    pub fn retain(&self, desired: &Object, observed: &Object) -> Option<InterpretResult<Object>> {
        let script = self.script(desired, Operation::Retain)?;
        Some(self.vm.retain(script, desired, observed))
    }

    pub fn aggregate_status(&self, object: &Object, items: &[AggregatedStatusItem]) -> Option<InterpretResult<Object>> {
        let script = self.script(object, Operation::AggregateStatus)?;
        Some(self.vm.aggregate_status(script, object, items))
    }

    pub fn reflect_status(&self, object: &Object) -> Option<InterpretResult<Value>> {
        let script = self.script(object, Operation::InterpretStatus)?;
        Some(self.vm.reflect_status(script, object))
    }

    pub fn is_healthy(&self, object: &Object) -> Option<InterpretResult<bool>> {
        let script = self.script(object, Operation::InterpretHealth)?;
        Some(self.vm.is_healthy(script, object))
    }

    pub fn dependencies(&self, object: &Object) -> Option<InterpretResult<Vec<DependentObjectReference>>> {
        let scripts = &self.scripts(object.api_version(), object.kind())?.dependencies;
        if scripts.is_empty() {
            return None;
        }
        let run = |script: &Arc<str>| {
            let found = self.vm.dependencies(script, object)?;
            dependency::verify(&found)?;
            Ok(found)
        };
        let lists: InterpretResult<Vec<_>> = scripts.iter().map(run).collect();
        Some(lists.map(dependency::merge))
    }

    /// Checks that a script can be loaded.
    pub fn compile(&self, script: &str) -> InterpretResult<()> {
        self.vm.compile(script)
    }
}
