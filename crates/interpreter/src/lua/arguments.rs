//! Reads the arguments of a script's call, and returns results or an error the script can catch as text.

use mlua::{Function, Lua, LuaString, MultiValue, Table, Value};

use super::numbers;

/// The result of a native function: values, or an error text.
pub type LuaResult = Result<MultiValue, String>;

/// The arguments of one call, counted from one as in Lua.
pub struct Arguments {
    function: &'static str,
    values: MultiValue,
}

impl Arguments {
    pub fn count(&self) -> usize {
        self.values.len()
    }

    pub fn get(&self, index: usize) -> &Value {
        self.values.get(index - 1).unwrap_or(&Value::Nil)
    }

    /// A string, or a number converted to one.
    pub fn bytes(&self, index: usize) -> Result<Vec<u8>, String> {
        match self.get(index) {
            Value::String(text) => Ok(text.as_bytes().to_vec()),
            Value::Integer(number) => Ok(number.to_string().into_bytes()),
            Value::Number(number) => Ok(numbers::text(*number).into_bytes()),
            other => Err(self.wrong(index, "string", other)),
        }
    }

    pub fn number(&self, index: usize) -> Result<f64, String> {
        let parse = |text: &LuaString| text.to_str().ok().and_then(|text| text.trim().parse().ok());
        match self.get(index) {
            Value::Integer(number) => Ok(*number as f64),
            Value::Number(number) => Ok(*number),
            Value::String(text) => parse(text).ok_or_else(|| self.wrong(index, "number", self.get(index))),
            other => Err(self.wrong(index, "number", other)),
        }
    }

    pub fn int(&self, index: usize) -> Result<i64, String> {
        self.number(index).map(|number| number as i64)
    }

    pub fn int_or(&self, index: usize, default: i64) -> Result<i64, String> {
        if self.get(index).is_nil() { Ok(default) } else { self.int(index) }
    }

    pub fn table(&self, index: usize) -> Result<&Table, String> {
        self.get(index).as_table().ok_or_else(|| self.wrong(index, "table", self.get(index)))
    }

    pub fn is_true(&self, index: usize) -> bool {
        !matches!(self.get(index), Value::Nil | Value::Boolean(false))
    }

    pub fn wrong(&self, index: usize, wanted: &str, found: &Value) -> String {
        let found = if index > self.count() { "no value" } else { found.type_name() };
        format!("bad argument #{index} to {} ({wanted} expected, got {found})", self.function)
    }
}

/// A function that returns `true` and its results, or `false` and a text: the prelude raises the latter as an error,
/// so that scripts see the same plain text as in Karmada.
pub fn function(
    lua: &Lua,
    name: &'static str,
    body: impl Fn(&Lua, Arguments) -> LuaResult + Send + 'static,
) -> mlua::Result<Function> {
    lua.create_function(move |lua, values: MultiValue| match body(lua, Arguments { function: name, values }) {
        Ok(mut results) => {
            results.push_front(Value::Boolean(true));
            Ok(results)
        }
        Err(text) => {
            let text = lua.create_string(text)?;
            Ok(MultiValue::from_iter([Value::Boolean(false), Value::String(text)]))
        }
    })
}

/// For failures of the Lua state itself, such as a lack of memory.
pub fn internal(error: mlua::Error) -> String {
    super::state::error_text(&error)
}
