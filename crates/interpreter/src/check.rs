//! Checks and runs customizations from files, for commands without a server.

use std::borrow::Cow;
use std::sync::Arc;

use api::config::CustomizationSpec;
use api::work::AggregatedStatusItem;
use jiff::Timestamp;
use object::Object;
use serde::Serialize;
use serde_json::Value;

use crate::customization::{Customizations, script_of};
use crate::environment::ScriptEnvironment;
use crate::operation::{InterpretError, InterpretResult, Operation};
use crate::pod;
use crate::question::{
    AggregateStatus, Components, Dependencies, Health, Question, ReflectStatus, Replicas, Retain, ReviseReplicas,
};

/// Loads a script without running it.
pub fn compile(script: &str) -> Result<(), String> {
    loader().compile(script).map_err(|error| error.0)
}

/// The result of loading a script; `None` if there is none.
pub type Loaded = Option<Result<(), String>>;

/// The result for each rule of a customization, in Karmada's order.
pub fn rules(customization: &Object) -> Result<Vec<(Operation, Loaded)>, String> {
    let spec: CustomizationSpec = api::read(customization).map_err(|status| status.message)?;
    let vm = loader();
    let check = |operation: Operation| {
        let script = script_of(&spec.customizations, operation);
        (operation, script.map(|script| vm.compile(script).map_err(|error| error.0)))
    };
    Ok(ORDER.into_iter().map(check).collect())
}

/// The order in which Karmada's commands list the rules.
pub const ORDER: [Operation; 8] = [
    Operation::Retain,
    Operation::InterpretReplica,
    Operation::InterpretComponent,
    Operation::ReviseReplica,
    Operation::InterpretStatus,
    Operation::AggregateStatus,
    Operation::InterpretHealth,
    Operation::InterpretDependency,
];

/// The inputs of a rule.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    pub desired: Option<Object>,
    pub observed: Option<Object>,
    pub items: Vec<AggregatedStatusItem>,
    pub replicas: i64,
}

/// One named result, as printed.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    pub name: &'static str,
    pub value: Value,
}

/// Runs one operation of several customizations, merged as a control plane would.
pub fn run_all(
    customizations: &[Arc<Object>],
    operation: Operation,
    inputs: &Inputs,
    now: Timestamp,
    environment: ScriptEnvironment,
) -> InterpretResult<Vec<Output>> {
    let objects = customizations.iter().map(Arc::as_ref);
    // Unreadable customizations have no rules, which is what the answer says.
    let rules = Customizations::new(objects, pod::PodOptions::default(), &[], environment, &mut Vec::new());
    run_rules(&rules, operation, inputs, now)
}

pub(crate) fn run_rules(
    rules: &Customizations,
    operation: Operation,
    inputs: &Inputs,
    now: Timestamp,
) -> InterpretResult<Vec<Output>> {
    let object = || inputs.object();
    let on_object = || inputs.object().map(Cow::Borrowed);
    match operation {
        Operation::Retain => {
            let desired = inputs.desired.as_ref().ok_or_else(|| unset("desired, desired-file options are not set"))?;
            let observed =
                inputs.observed.as_ref().ok_or_else(|| unset("observed, observed-file options are not set"))?;
            Ok(vec![output(
                "retained",
                &answer(rules, Retain { desired: Cow::Borrowed(desired), observed }, now)?.into_value(),
            )?])
        }
        Operation::InterpretReplica => {
            let (replicas, requirements) = answer(rules, Replicas(object()?), now)?;
            Ok(vec![output("replica", &replicas)?, output("requires", &requirements)?])
        }
        Operation::InterpretComponent => Ok(vec![output("components", &answer(rules, Components(object()?), now)?)?]),
        Operation::ReviseReplica => {
            let revised = answer(rules, ReviseReplicas { object: on_object()?, replicas: inputs.replicas }, now)?;
            Ok(vec![output("revised", &revised.into_value())?])
        }
        Operation::InterpretStatus => Ok(vec![output("status", &answer(rules, ReflectStatus(object()?), now)?)?]),
        Operation::AggregateStatus => {
            let aggregated = answer(rules, AggregateStatus { object: on_object()?, items: &inputs.items }, now)?;
            Ok(vec![output("aggregatedStatus", &aggregated.into_value())?])
        }
        Operation::InterpretHealth => Ok(vec![output("healthy", &answer(rules, Health(object()?), now)?)?]),
        Operation::InterpretDependency => {
            Ok(vec![output("dependencies", &answer(rules, Dependencies(object()?), now)?)?])
        }
    }
}

impl Inputs {
    /// The only object.
    fn object(&self) -> InterpretResult<&Object> {
        match (&self.desired, &self.observed) {
            (Some(object), None) | (None, Some(object)) => Ok(object),
            (None, None) => Err(unset("desired-file, observed-file options are not set")),
            (Some(_), Some(_)) => Err(unset("you can not specify both desired-file and observed-file options")),
        }
    }
}

fn unset(text: &str) -> InterpretError {
    InterpretError(text.to_owned())
}

fn answer<Q: Question>(rules: &Customizations, question: Q, now: Timestamp) -> InterpretResult<Q::Answer> {
    let object = question.object();
    let rule = rules.rule(object.api_version(), object.kind(), Q::OPERATION);
    rule.ok_or_else(|| unset("rule is not enabled"))?.answer(&question, now)
}

fn output(name: &'static str, value: &impl Serialize) -> InterpretResult<Output> {
    let value = serde_json::to_value(value).map_err(|error| InterpretError(error.to_string()))?;
    Ok(Output { name, value })
}

/// Loads scripts without running them.
fn loader() -> Customizations {
    let environment = ScriptEnvironment::for_loading();
    Customizations::new(std::iter::empty(), pod::PodOptions::default(), &[], environment, &mut Vec::new())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(customization: &Object, operation: Operation, inputs: &Inputs) -> InterpretResult<Vec<Output>> {
        let customizations = [Arc::new(customization.clone())];
        run_all(&customizations, operation, inputs, Timestamp::UNIX_EPOCH, ScriptEnvironment::for_tests())
    }

    fn customization(rules: Value) -> Object {
        Object::from_value(json!({"metadata": {"name": "c"}, "spec": {
            "target": {"apiVersion": "example.io/v1", "kind": "Thing"}, "customizations": rules}}))
        .expect("a map")
    }

    fn thing() -> Object {
        Object::from_value(json!({"apiVersion": "example.io/v1", "kind": "Thing", "spec": {"replicas": 2}}))
            .expect("a map")
    }

    #[test]
    fn scripts_are_loaded_but_not_run() {
        assert_eq!(compile("error('not run')"), Ok(()));
        assert!(compile("function (").expect_err("no name").starts_with("script:1: "));
        assert!(compile("goto = = 1").is_err());
        let broken =
            customization(json!({"retention": {"luaScript": "x ="}, "healthInterpretation": {"luaScript": "x = 1"}}));
        let found = rules(&broken).expect("readable");
        let shown: Vec<(Operation, &str)> = found
            .iter()
            .map(|(operation, result)| {
                (
                    *operation,
                    match result {
                        None => "UNSET",
                        Some(Ok(())) => "PASS",
                        Some(Err(_)) => "ERROR",
                    },
                )
            })
            .collect();
        assert_eq!(shown[0], (Operation::Retain, "ERROR"));
        assert_eq!(shown[1], (Operation::InterpretReplica, "UNSET"));
        assert_eq!(shown[6], (Operation::InterpretHealth, "PASS"));
    }

    #[test]
    fn one_operation_gives_its_named_results() {
        let rules = customization(json!({
            "replicaResource": {"luaScript": "function GetReplicas(o) return o.spec.replicas, nil end"},
            "replicaRevision": {"luaScript": "function ReviseReplica(o, n) o.spec.replicas = n return o end"},
            "retention": {"luaScript": "function Retain(d, o) d.spec = o.spec return d end"}}));
        let one = Inputs { desired: Some(thing()), replicas: 7, ..Inputs::default() };
        let both = Inputs { observed: Some(thing()), ..one.clone() };
        let names = |outputs: Vec<Output>| outputs.into_iter().map(|o| (o.name, o.value)).collect::<Vec<_>>();
        let replicas = run(&rules, Operation::InterpretReplica, &one).expect("runs");
        assert_eq!(names(replicas), [("replica", json!(2)), ("requires", Value::Null)]);
        let revised = run(&rules, Operation::ReviseReplica, &one).expect("runs");
        assert_eq!((revised[0].name, &revised[0].value["spec"]), ("revised", &json!({"replicas": 7})));
        assert_eq!(run(&rules, Operation::Retain, &both).expect("runs")[0].name, "retained");
        let cases = [
            (Operation::InterpretHealth, &one, "rule is not enabled"),
            (Operation::Retain, &one, "observed, observed-file options are not set"),
            (Operation::InterpretReplica, &both, "you can not specify both desired-file and observed-file options"),
            (Operation::InterpretReplica, &Inputs::default(), "desired-file, observed-file options are not set"),
        ];
        for (operation, inputs, expected) in cases {
            assert_eq!(run(&rules, operation, inputs), Err(InterpretError(expected.to_owned())));
        }
    }
}
