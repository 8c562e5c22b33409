//! `base64.encode` and `base64.decode`.

use super::{CallContext, Function, fail, no_overload_for};
use crate::value::{Evaluated, Value};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};

pub(super) fn function(name: &str) -> Option<Function> {
    Some(match name {
        "base64.encode" => encode,
        "base64.decode" => decode,
        _ => return None,
    })
}

fn encode<'a>(context: &CallContext, args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Bytes(bytes)] => Ok(Value::text(STANDARD.encode(bytes))),
        _ => no_overload_for(context, args),
    }
}

fn decode<'a>(context: &CallContext, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::String(text)] = args else { return no_overload_for(context, args) };
    match STANDARD.decode(&**text).or_else(|_| STANDARD_NO_PAD.decode(&**text)) {
        Ok(bytes) => Ok(Value::Bytes(bytes.into())),
        Err(error) => fail(format!("illegal base64 data: {error}")),
    }
}
