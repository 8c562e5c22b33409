//! `jsonpatch.escapeKey`: a key as a segment of a JSON Pointer.

use super::{CallContext, Function, no_overload_for};
use crate::value::{Evaluated, Value};

pub(super) fn function(name: &str) -> Option<Function> {
    (name == "jsonpatch.escapeKey").then_some(escape_key as Function)
}

fn escape_key<'a>(context: &CallContext, args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::String(key)] => Ok(Value::text(key.replace('~', "~0").replace('/', "~1"))),
        _ => no_overload_for(context, args),
    }
}
