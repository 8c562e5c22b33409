//! ResourceInterpreterCustomizations by kind: for each operation the first one by name that has a script is used.

use std::collections::HashMap;
use std::sync::Arc;

use api::config::{CustomizationRules, CustomizationSpec, LuaRule};
use jiff::Timestamp;
use object::Object;

use crate::environment::ScriptEnvironment;
use crate::lua::{Module, Vm};
use crate::operation::{InterpretResult, Operation};
use crate::pod;
use crate::question::Question;

/// The scripts for one operation on one kind, in the order of the names of their customizations.
pub struct Scripts {
    pub first: Arc<str>,
    others: Vec<Arc<str>>,
}

impl Scripts {
    pub fn all(&self) -> impl Iterator<Item = &Arc<str>> {
        std::iter::once(&self.first).chain(&self.others)
    }
}

/// The rule of one tier for one operation on one kind.
pub struct Rule<'a> {
    vm: &'a Vm,
    scripts: &'a Scripts,
}

impl Rule<'_> {
    pub fn answer<Q: Question>(&self, question: &Q, now: Timestamp) -> InterpretResult<Q::Answer> {
        question.by_scripts(self.vm.at(now), self.scripts)
    }
}

/// All customizations of one tier, and the Lua states they run in.
pub struct Customizations {
    /// By apiVersion, kind and operation.
    kinds: HashMap<String, HashMap<String, HashMap<Operation, Scripts>>>,
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
    /// An invalid customization is ignored and reported in `problems`; admission rejects them.
    pub fn new<'a>(
        objects: impl Iterator<Item = &'a Object>,
        options: pod::PodOptions,
        modules: &'static [Module],
        environment: ScriptEnvironment,
        problems: &mut Vec<String>,
    ) -> Self {
        let mut sorted: Vec<&Object> = objects.collect();
        sorted.sort_by_key(|object| object.name());
        let mut kinds: HashMap<String, HashMap<String, HashMap<Operation, Scripts>>> = HashMap::new();
        for object in sorted {
            let spec = match api::read::<CustomizationSpec>(object) {
                Ok(spec) => spec,
                Err(status) => {
                    problems.push(format!("customization {} cannot be read: {status}", object.name()));
                    continue;
                }
            };
            let scripts = kinds.entry(spec.target.api_version).or_default().entry(spec.target.kind).or_default();
            for operation in Operation::ALL {
                let Some(script) = script_of(&spec.customizations, operation) else { continue };
                match scripts.get_mut(&operation) {
                    Some(known) => known.others.push(script.into()),
                    None => {
                        scripts.insert(operation, Scripts { first: script.into(), others: Vec::new() });
                    }
                }
            }
        }
        Self { kinds, vm: Vm::new(options, modules, environment) }
    }

    /// Returns `None` if no customization applies.
    pub fn rule(&self, api_version: &str, kind: &str, operation: Operation) -> Option<Rule<'_>> {
        let scripts = self.kinds.get(api_version)?.get(kind)?.get(&operation)?;
        Some(Rule { vm: &self.vm, scripts })
    }

    /// Checks that a script can be loaded.
    pub fn compile(&self, script: &str) -> InterpretResult<()> {
        self.vm.compile(script)
    }
}
