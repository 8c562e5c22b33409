//! One sandboxed Lua state: bounded time and memory, no outside access, a fresh environment per call.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use mlua::chunk::ChunkMode;
use mlua::debug::HookTriggers;
use mlua::{Error, Function, Lua, LuaOptions, LuaString, MultiValue, Result, StdLib, Table, Value, VmState};

use super::dates::{self, CallTime};
use super::deadline::Deadline;
use super::{kube, strings};
use crate::environment::ScriptEnvironment;
use crate::operation::InterpretError;
use crate::pod;

/// Time limit of a script, from loading to its result.
pub const BUDGET: Duration = Duration::from_secs(1);
/// Memory limit of a state. The largest object is a hundredth of this.
pub const MEMORY_BYTES_MAX: usize = 64 << 20;
/// A state that uses more than this after a call is dropped.
const MEMORY_BYTES_KEPT_MAX: usize = 16 << 20;
/// Instructions between two checks of the deadline: a few microseconds.
const INSTRUCTIONS_PER_LOOK: u32 = 1_000;
/// Compiled scripts cached by a state.
const SCRIPTS_KEPT_MAX: usize = 256;

const PRELUDE: &str = include_str!("prelude.lua");

/// A bundled module that scripts may require, by name and text.
pub type Module = (&'static str, &'static str);

pub struct LuaState {
    lua: Lua,
    deadline: Deadline,
    now: CallTime,
    fresh: Function,
    scripts: HashMap<Arc<str>, Function>,
}

impl LuaState {
    pub fn new(options: pod::PodOptions, modules: &[Module], environment: &ScriptEnvironment) -> Result<Self> {
        let lua = Lua::new_with(StdLib::TABLE | StdLib::MATH, LuaOptions::new())?;
        let deadline = Deadline::new(Arc::clone(&environment.stopwatch));
        let now = CallTime::default();
        let native = native_functions(&lua, &deadline, &now, options, environment)?;
        let fresh = prepare(&lua, native, modules)?;
        lua.set_memory_limit(MEMORY_BYTES_MAX)?;
        let clock = deadline.clone();
        let triggers = HookTriggers::new().every_nth_instruction(INSTRUCTIONS_PER_LOOK);
        lua.set_hook(triggers, move |_, _| clock.check().map(|()| VmState::Continue).map_err(Error::RuntimeError))?;
        Ok(Self { lua, deadline, now, fresh, scripts: HashMap::new() })
    }

    /// Runs a script and calls one of its functions; `read` converts the results within the time limit.
    pub fn call<T>(
        &mut self,
        script: &Arc<str>,
        function: &str,
        now: Timestamp,
        arguments: impl FnOnce(&Lua) -> Result<MultiValue>,
        read: impl FnOnce(MultiValue) -> std::result::Result<T, String>,
    ) -> std::result::Result<T, InterpretError> {
        self.now.set(now);
        self.deadline.start(BUDGET);
        let result = self.call_in_time(script, function, arguments, read);
        let message = self.deadline.is_over().then(|| self.deadline.message());
        self.deadline.stop();
        match (result, message) {
            (Ok(value), _) => Ok(value),
            (Err(_), Some(message)) => Err(InterpretError(message)),
            (Err(text), None) => Err(InterpretError(text)),
        }
    }

    fn call_in_time<T>(
        &mut self,
        script: &Arc<str>,
        function: &str,
        arguments: impl FnOnce(&Lua) -> Result<MultiValue>,
        read: impl FnOnce(MultiValue) -> std::result::Result<T, String>,
    ) -> std::result::Result<T, String> {
        let text = |error: Error| error_text(&error);
        let chunk = self.compiled(script).map_err(text)?;
        let environment: Table = self.fresh.call(()).map_err(text)?;
        chunk.set_environment(environment.clone()).map_err(text)?;
        chunk.call::<()>(()).map_err(text)?;
        let found = match environment.raw_get(function).map_err(text)? {
            Value::Function(found) => found,
            Value::Nil => return Err(format!("not found function {function}")),
            other => return Err(format!("{function} is not a function: {}", other.type_name())),
        };
        let arguments = arguments(&self.lua).map_err(text)?;
        let results: MultiValue = found.call(arguments).map_err(text)?;
        read(results)
    }

    fn compiled(&mut self, script: &Arc<str>) -> Result<Function> {
        if let Some(known) = self.scripts.get(script) {
            return Ok(known.clone());
        }
        if self.scripts.len() >= SCRIPTS_KEPT_MAX {
            self.scripts.clear();
        }
        let chunk = load(&self.lua, script)?;
        self.scripts.insert(Arc::clone(script), chunk.clone());
        Ok(chunk)
    }

    /// Loads a script without running it.
    pub fn compile(&self, script: &str) -> std::result::Result<(), InterpretError> {
        load(&self.lua, script).map(drop).map_err(|error| InterpretError(error_text(&error)))
    }

    /// Reports whether it is small enough to keep for the next call.
    pub fn is_light(&self) -> bool {
        self.lua.used_memory() <= MEMORY_BYTES_KEPT_MAX
    }
}

/// Text only: bytecode could break out of the sandbox.
fn load(lua: &Lua, script: &str) -> Result<Function> {
    lua.load(script).set_name("=script").set_mode(ChunkMode::Text).into_function()
}

/// The functions behind the prelude.
fn native_functions(
    lua: &Lua,
    deadline: &Deadline,
    now: &CallTime,
    options: pod::PodOptions,
    environment: &ScriptEnvironment,
) -> Result<Table> {
    let native = lua.create_table()?;
    let clock = deadline.clone();
    native.raw_set("tick", lua.create_function(move |_, ()| clock.check().map_err(Error::RuntimeError))?)?;
    let print = Arc::clone(&environment.print);
    let print = move |_: &Lua, values: MultiValue| {
        let texts: Result<Vec<String>> = values.iter().map(Value::to_string).collect();
        print(&texts?.join("\t"));
        Ok(())
    };
    native.raw_set("print", lua.create_function(print)?)?;
    native.raw_set("strings", strings::functions(lua, deadline)?)?;
    native.raw_set("os", dates::functions(lua, &environment.zone, now)?)?;
    native.raw_set("kube", kube::functions(lua, options)?)?;
    let methods = lua.create_function(|lua, metatable: Table| {
        lua.set_type_metatable::<LuaString>(Some(metatable));
        Ok(())
    })?;
    native.raw_set("set_string_methods", methods)?;
    let with_environment = lua.create_function(|_, (function, environment): (Function, Table)| {
        function.set_environment(environment)?;
        Ok(function)
    })?;
    native.raw_set("with_environment", with_environment)?;
    Ok(native)
}

/// Runs the prelude, which returns the constructor of environments.
fn prepare(lua: &Lua, native: Table, modules: &[Module]) -> Result<Function> {
    let loaded = lua.create_table()?;
    for (name, text) in modules {
        loaded.raw_set(*name, lua.load(*text).set_name(format!("={name}")).into_function()?)?;
    }
    lua.load(PRELUDE).set_name("=prelude").call((native, loaded))
}

/// The error text without a traceback of our own functions.
pub fn error_text(error: &Error) -> String {
    match error {
        Error::CallbackError { cause, .. } => error_text(cause),
        Error::RuntimeError(text) => text.split("\nstack traceback:").next().unwrap_or(text).to_owned(),
        Error::SyntaxError { message, .. } => message.clone(),
        Error::MemoryError(_) => format!("script stopped: it needs more than {} MiB of memory", MEMORY_BYTES_MAX >> 20),
        other => other.to_string(),
    }
}
