//! The `kube` module: quantities and pods, for scripts that call `require("kube")`.

use mlua::{Lua, MultiValue, Result, Table, Value};
use object::quantity::Quantity;

use super::arguments::{Arguments, LuaResult, function, internal};
use super::convert;
use crate::pod;

/// Functions by name, in the form of `arguments::function`.
pub fn functions(lua: &Lua, options: pod::PodOptions) -> Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("resourceAdd", function(lua, "resourceAdd", |lua, arguments| resource_add(lua, &arguments))?)?;
    let requirements =
        function(lua, "accuratePodRequirements", move |lua, arguments| requirements(lua, &arguments, options))?;
    table.raw_set("accuratePodRequirements", requirements)?;
    let dependencies = function(lua, "getPodDependencies", |lua, arguments| dependencies(lua, &arguments))?;
    table.raw_set("getPodDependencies", dependencies)?;
    let quantity = function(lua, "getResourceQuantity", |_, arguments| resource_quantity(&arguments))?;
    table.raw_set("getResourceQuantity", quantity)?;
    Ok(table)
}

fn quantity(arguments: &Arguments, index: usize) -> std::result::Result<Quantity, String> {
    match arguments.get(index) {
        Value::Nil => Ok(Quantity::default()),
        Value::String(text) => {
            let text = text.to_string_lossy();
            Quantity::parse(&text).map_err(|error| format!("cannot parse '{text}': {error}"))
        }
        other => Err(arguments.wrong(index, "string", other)),
    }
}

fn resource_add(lua: &Lua, arguments: &Arguments) -> LuaResult {
    let mut sum = Quantity::default();
    for index in 1..=arguments.count() {
        sum = sum.plus(&quantity(arguments, index)?);
    }
    let text = lua.create_string(sum.to_string()).map_err(internal)?;
    Ok(MultiValue::from_iter([Value::String(text)]))
}

fn resource_quantity(arguments: &Arguments) -> LuaResult {
    if arguments.count() != 1 {
        return Err("getResourceQuantity only accepts one argument".to_owned());
    }
    let quantity = quantity(arguments, 1)?;
    let number = quantity.as_f64();
    if number < 0.0 {
        return Err(format!("int approximation unexpectedly returned a negative value: {quantity}"));
    }
    if number.is_infinite() {
        return Err(format!("int approximation unexpectedly returned an infinite value: {quantity}"));
    }
    Ok(MultiValue::from_iter([Value::Number(number)]))
}

fn requirements(lua: &Lua, arguments: &Arguments, options: pod::PodOptions) -> LuaResult {
    if arguments.count() != 1 {
        return Err("getPodRequirements only accepts one argument".to_owned());
    }
    let template = template(arguments)?;
    let found = pod::requirements(&template["spec"], options).map_err(|error| error.0)?;
    let value = serde_json::to_value(found).map_err(|error| error.to_string())?;
    Ok(MultiValue::from_iter([convert::to_lua(lua, &value).map_err(internal)?]))
}

fn dependencies(lua: &Lua, arguments: &Arguments) -> LuaResult {
    if arguments.count() != 2 {
        return Err("getPodDependencies only accepts two argument".to_owned());
    }
    let template = template(arguments)?;
    let namespace = match arguments.get(2) {
        Value::Nil => "default".to_owned(),
        Value::String(_) | Value::Integer(_) | Value::Number(_) => {
            String::from_utf8_lossy(&arguments.bytes(2)?).into_owned()
        }
        other => return Err(arguments.wrong(2, "string", other)),
    };
    let found = pod::dependencies(&template["spec"], &namespace);
    // Karmada returns nil if there are none, which breaks scripts that return it directly.
    let value = serde_json::to_value(found).map_err(|error| error.to_string())?;
    Ok(MultiValue::from_iter([convert::to_lua(lua, &value).map_err(internal)?]))
}

fn template(arguments: &Arguments) -> std::result::Result<serde_json::Value, String> {
    let table = arguments.table(1)?;
    let value =
        convert::to_json(table).map_err(|error| format!("fail to convert lua value to PodTemplateSpec: {error}"))?;
    Ok(convert::settle(value, convert::Root::Map, &[]))
}
