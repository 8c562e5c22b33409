//! Runs the Lua scripts of customizations: each operation is a call with typed arguments and a typed result.

mod arguments;
mod convert;
mod dates;
mod deadline;
mod format;
mod kube;
mod numbers;
mod pattern;
mod state;
mod strings;

use std::sync::Arc;

use api::config::DependentObjectReference;
use api::work::{AggregatedStatusItem, Component, ReplicaRequirements};
use jiff::Timestamp;
use mlua::{Lua, MultiValue, Table, Value};
use object::Object;
use object::quantity::Quantity;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};

use crate::environment::ScriptEnvironment;
use crate::lua::convert::Root;
use crate::lua::state::LuaState;
use crate::operation::{InterpretError, InterpretResult};
use crate::pod;

pub use state::Module;

/// Idle states kept for later calls; a burst creates more and drops them.
const STATES_IDLE_MAX: usize = 10;

/// A pool of identical Lua states.
pub struct Vm {
    options: pod::PodOptions,
    modules: &'static [Module],
    environment: ScriptEnvironment,
    idle: Mutex<Vec<LuaState>>,
}

/// Calls of scripts at one time.
#[derive(Clone, Copy)]
pub struct Run<'a> {
    vm: &'a Vm,
    now: Timestamp,
}

impl Vm {
    pub fn new(options: pod::PodOptions, modules: &'static [Module], environment: ScriptEnvironment) -> Self {
        Self { options, modules, environment, idle: Mutex::new(Vec::new()) }
    }

    /// `now` is the time that scripts see.
    pub fn at(&self, now: Timestamp) -> Run<'_> {
        Run { vm: self, now }
    }

    fn state(&self) -> InterpretResult<LuaState> {
        let kept = self.idle.lock().pop();
        match kept {
            Some(state) => Ok(state),
            None => LuaState::new(self.options, self.modules, &self.environment)
                .map_err(|error| InterpretError(format!("Lua cannot be started: {}", state::error_text(&error)))),
        }
    }

    /// Checks that the script can be loaded.
    pub fn compile(&self, script: &str) -> InterpretResult<()> {
        self.state()?.compile(script)
    }
}

impl Run<'_> {
    /// A state that failed is dropped: it may be inconsistent.
    fn call<T>(
        &self,
        script: &Arc<str>,
        function: &str,
        arguments: impl FnOnce(&Lua) -> mlua::Result<MultiValue>,
        read: impl FnOnce(MultiValue) -> Result<T, String>,
    ) -> InterpretResult<T> {
        let mut state = self.vm.state()?;
        let result = state.call(script, function, self.now, arguments, read);
        if result.is_ok() && state.is_light() {
            let mut idle = self.vm.idle.lock();
            if idle.len() < STATES_IDLE_MAX {
                idle.push(state);
            }
        }
        result
    }

    pub fn replicas(&self, script: &Arc<str>, object: &Object) -> InterpretResult<(i32, Option<ReplicaRequirements>)> {
        self.call(
            script,
            "GetReplicas",
            |lua| objects(lua, &[object]),
            |results| {
                let mut results = results.into_iter();
                let replicas = match results.next().unwrap_or_default() {
                    Value::Integer(number) => number.clamp(i32::MIN.into(), i32::MAX.into()) as i32,
                    Value::Number(number) => number as i32,
                    other => {
                        return Err(format!(
                            "expect the returned replica type is number but got {}",
                            other.type_name()
                        ));
                    }
                };
                match results.next().unwrap_or_default() {
                    Value::Nil => Ok((replicas, None)),
                    Value::Table(table) => {
                        let mut requirements = typed(&table, Root::Map)?;
                        canonicalize(&mut requirements)?;
                        Ok((replicas, Some(requirements)))
                    }
                    other => Err(format!("expect the returned requires type is table but got {}", other.type_name())),
                }
            },
        )
    }

    pub fn components(&self, script: &Arc<str>, object: &Object) -> InterpretResult<Vec<Component>> {
        self.call(
            script,
            "GetComponents",
            |lua| objects(lua, &[object]),
            |results| match first(results) {
                Value::Nil => Ok(Vec::new()),
                Value::Table(table) => {
                    let mut components: Vec<Component> = typed(&table, Root::List)?;
                    let mut wanted = components.iter_mut().filter_map(|one| one.replica_requirements.as_mut());
                    wanted.try_for_each(canonicalize)?;
                    Ok(components)
                }
                other => Err(format!(
                    "expected result type 'table' or 'nil' from GetComponents, but got '{}'",
                    other.type_name()
                )),
            },
        )
    }

    pub fn revise_replicas(&self, script: &Arc<str>, object: &Object, replicas: i64) -> InterpretResult<Object> {
        let arguments = |lua: &Lua| {
            let mut arguments = objects(lua, &[object])?;
            arguments.push_back(Value::Number(replicas as f64));
            Ok(arguments)
        };
        self.call(script, "ReviseReplica", arguments, |results| changed(results, &[object.as_map()]))
    }

    pub fn retain(&self, script: &Arc<str>, desired: &Object, observed: &Object) -> InterpretResult<Object> {
        let references = [desired.as_map(), observed.as_map()];
        self.call(script, "Retain", |lua| objects(lua, &[desired, observed]), |results| changed(results, &references))
    }

    pub fn aggregate_status(
        &self,
        script: &Arc<str>,
        object: &Object,
        items: &[AggregatedStatusItem],
    ) -> InterpretResult<Object> {
        let arguments = |lua: &Lua| {
            let mut arguments = objects(lua, &[object])?;
            // Without any reported status there is no list; scripts check for nil.
            arguments.push_back(if items.is_empty() { Value::Nil } else { Value::Table(status_items(lua, items)?) });
            Ok(arguments)
        };
        self.call(script, "AggregateStatus", arguments, |results| changed(results, &[]))
    }

    pub fn dependencies(&self, script: &Arc<str>, object: &Object) -> InterpretResult<Vec<DependentObjectReference>> {
        self.call(
            script,
            "GetDependencies",
            |lua| objects(lua, &[object]),
            |results| typed(&table(first(results))?, Root::List),
        )
    }

    pub fn reflect_status(&self, script: &Arc<str>, object: &Object) -> InterpretResult<Json> {
        self.call(
            script,
            "ReflectStatus",
            |lua| objects(lua, &[object]),
            |results| match first(results) {
                Value::Table(table) => settled(&table, Root::Map, &[]),
                other => Err(format!("expect the returned replica type is table but got {}", other.type_name())),
            },
        )
    }

    pub fn is_healthy(&self, script: &Arc<str>, object: &Object) -> InterpretResult<bool> {
        self.call(
            script,
            "InterpretHealth",
            |lua| objects(lua, &[object]),
            |results| match first(results) {
                Value::Boolean(healthy) => Ok(healthy),
                other => Err(format!("expect the returned health type is bool but got {}", other.type_name())),
            },
        )
    }
}

fn objects(lua: &Lua, objects: &[&Object]) -> mlua::Result<MultiValue> {
    objects.iter().map(|object| convert::map_to_lua(lua, object.as_map()).map(Value::Table)).collect()
}

fn status_items(lua: &Lua, items: &[AggregatedStatusItem]) -> mlua::Result<Table> {
    let list = lua.create_table_with_capacity(items.len(), 0)?;
    for (index, item) in items.iter().enumerate() {
        let table = lua.create_table()?;
        table.raw_set("clusterName", item.cluster_name.as_str())?;
        if let Some(status) = &item.status {
            table.raw_set("status", convert::to_lua(lua, status)?)?;
        }
        if item.applied {
            table.raw_set("applied", true)?;
        }
        for (key, text) in [("appliedMessage", &item.applied_message), ("health", &item.health)] {
            if !text.is_empty() {
                table.raw_set(key, text.as_str())?;
            }
        }
        list.raw_set(index + 1, table)?;
    }
    Ok(list)
}

fn first(results: MultiValue) -> Value {
    results.into_iter().next().unwrap_or_default()
}

fn table(value: Value) -> Result<Table, String> {
    match value {
        Value::Table(table) => Ok(table),
        other => Err(format!("expect the returned requires type is table but got {}", other.type_name())),
    }
}

fn settled(table: &Table, root: Root, references: &[&Map<String, Json>]) -> Result<Json, String> {
    let json = convert::to_json(table).map_err(|error| format!("encode lua result to json failed: {error}"))?;
    Ok(convert::settle(json, root, references))
}

fn typed<T: DeserializeOwned>(table: &Table, root: Root) -> Result<T, String> {
    let json = settled(table, root, &[])?;
    T::deserialize(json).map_err(|error| format!("json unmarshal obj failed: {error}"))
}

/// Normalizes quantities, which scripts may write in different ways.
fn canonicalize(requirements: &mut ReplicaRequirements) -> Result<(), String> {
    for text in requirements.resource_request.values_mut() {
        let quantity = Quantity::parse(&text.0).map_err(|error| format!("json unmarshal obj failed: {error}"))?;
        *text = (&quantity).into();
    }
    Ok(())
}

fn changed(results: MultiValue, references: &[&Map<String, Json>]) -> Result<Object, String> {
    let json = settled(&table(first(results))?, Root::Map, references)?;
    let object = Object::from_value(json).ok_or_else(|| "json unmarshal obj failed: a list is no object".to_owned())?;
    if object.kind().is_empty() {
        return Err("json unmarshal obj failed: Object 'Kind' is missing".to_owned());
    }
    Ok(object)
}

#[cfg(test)]
mod tests;
