//! Generates the table of RPCs, the traits of services and the dispatch to them.

use std::collections::BTreeSet;
use std::fmt::Write;

use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};

use super::{Api, Rpc, rust_path, snake};

pub fn render(api: &Api) -> String {
    let mut out = String::from("// Generated from proto files by `cargo xtask codegen`. Do not edit.\n\n");
    out.push_str(
        "use async_trait::async_trait;\nuse object::Status;\nuse transcode::call::Results;\nuse transcode::{Field, FieldKind, \
         HttpRoute, Message, Method, Output, Payload, Raw, Reply, fields};\n\nuse crate::messages::*;\n\n",
    );
    table(api, &mut out);
    traits(api, &mut out);
    dispatch(api, &mut out);
    out
}

fn constant(message: &MessageDescriptor) -> String {
    snake(&rust_path(message.full_name()).replace("::", "_")).to_uppercase()
}

fn table(api: &Api, out: &mut String) {
    let mut open: Vec<MessageDescriptor> = api.methods.iter().map(|rpc| rpc.method.input()).collect();
    open.extend(api.methods.iter().filter(|rpc| is_selectable(rpc)).map(|rpc| rpc.method.output()));
    let mut done = BTreeSet::new();
    let mut messages = String::new();
    while let Some(message) = open.pop() {
        if !done.insert(message.full_name().to_owned()) {
            continue;
        }
        let mut fields = String::new();
        for field in message.fields() {
            let kind = kind(&field, &mut open);
            let (name, json, repeated) = (field.name(), field.json_name(), field.is_list());
            let _ =
                writeln!(fields, "    Field {{ name: {name:?}, json: {json:?}, kind: {kind}, repeated: {repeated} }},");
        }
        let _ = writeln!(messages, "static {}: Message = Message {{ fields: &[\n{fields}] }};\n", constant(&message));
    }
    out.push_str(&messages);
    out.push_str("/// Every RPC.\npub static METHODS: &[Method] = &[\n");
    for rpc in &api.methods {
        let routes: Vec<String> = rpc
            .routes
            .iter()
            .map(|r| {
                format!("        HttpRoute {{ verb: {:?}, template: {:?}, body: {:?} }},\n", r.verb, r.path, r.body)
            })
            .collect();
        let response = match is_selectable(rpc) {
            true => format!("Some(&{})", constant(&rpc.method.output())),
            false => "None".to_owned(),
        };
        let _ = writeln!(
            out,
            "    Method {{\n        service: {:?},\n        name: {:?},\n        routes: &[\n{}        ],\n        request: \
             &{},\n        response: {response},\n        output: Output::{},\n        permission: {:?},\n    }},",
            rpc.method.parent_service().full_name(),
            rpc.method.name(),
            routes.concat(),
            constant(&rpc.method.input()),
            output(rpc),
            rpc.permission,
        );
    }
    out.push_str("];\n\n");
}

fn kind(field: &FieldDescriptor, open: &mut Vec<MessageDescriptor>) -> String {
    if field.is_map() {
        return "FieldKind::Other".to_owned();
    }
    match field.kind() {
        Kind::String | Kind::Enum(_) | Kind::Bytes => "FieldKind::Text".to_owned(),
        Kind::Bool => "FieldKind::Bool".to_owned(),
        Kind::Double | Kind::Float => "FieldKind::Float".to_owned(),
        Kind::Message(message) => match message.full_name() {
            "google.protobuf.Timestamp" | "google.protobuf.FieldMask" => "FieldKind::Text".to_owned(),
            "google.protobuf.Struct" => "FieldKind::Other".to_owned(),
            "google.api.HttpBody" => "FieldKind::Raw".to_owned(),
            _ => {
                let name = constant(&message);
                open.push(message);
                format!("FieldKind::Message(&{name})")
            }
        },
        _ => "FieldKind::Integer".to_owned(),
    }
}

fn has(rpc: &Rpc, field: &str) -> bool {
    rpc.method.input().get_field_by_name(field).is_some()
}

/// Returns true if callers can select fields of the result.
fn is_selectable(rpc: &Rpc) -> bool {
    has(rpc, "fields") && output(rpc) == "Message"
}

/// Messages about objects of instances: their etag is no version of the manager.
const INSTANCE_OBJECTS: [&str; 3] = ["JoinedCluster", "Policy", "Workload"];

/// The expression for the version of what a result shows.
fn version(rpc: &Rpc) -> Option<&'static str> {
    let message = rpc.method.output();
    let is_own = message.full_name().starts_with(super::PACKAGE);
    let has = |field: &str| is_own && message.get_field_by_name(field).is_some();
    match message.name() {
        // The version of the program.
        "ServerConfig" => None,
        _ if has("version") => Some("&result.version"),
        name if has("etag") && !INSTANCE_OBJECTS.contains(&name) => Some("&format!(\"manager:{}\", result.etag)"),
        _ => None,
    }
}

/// The expression that encodes a message.
fn encode(rpc: &Rpc, index: usize) -> String {
    let shown = version(rpc);
    match (is_selectable(rpc), shown) {
        (true, shown) => {
            let shown = shown.unwrap_or("\"\"");
            format!("codec.selected(&result, (response(&METHODS[{index}])?, &fields), {shown})")
        }
        (false, Some(shown)) => format!("codec.versioned(&result, {shown})"),
        (false, None) => "codec.message(&result)".to_owned(),
    }
}

fn is_raw(rpc: &Rpc) -> bool {
    rpc.method.output().full_name() == "google.api.HttpBody"
}

fn output(rpc: &Rpc) -> &'static str {
    match (is_raw(rpc), rpc.method.is_server_streaming()) {
        (false, false) => "Message",
        (false, true) => "Stream",
        (true, false) => "Raw",
        (true, true) => "RawStream",
    }
}

/// The type of a result; an empty message is `()`.
fn result_type(rpc: &Rpc) -> String {
    let output = rpc.method.output();
    let message = match output.full_name() {
        "google.protobuf.Empty" => "()".to_owned(),
        "google.api.HttpBody" => "Raw".to_owned(),
        name => rust_path(name),
    };
    match rpc.method.is_server_streaming() {
        true => format!("Results<{message}>"),
        false => message,
    }
}

fn comment(rpc: &Rpc) -> String {
    super::openapi::comment(&rpc.method.parent_file(), rpc.method.path())
}

fn traits(api: &Api, out: &mut String) {
    let mut services: Vec<String> = Vec::new();
    for rpc in &api.methods {
        let service = rpc.method.parent_service().name().to_owned();
        if services.last() != Some(&service) {
            if !services.is_empty() {
                out.push_str("}\n\n");
            }
            let _ = writeln!(out, "#[async_trait]\npub trait {service}<C>: Send + Sync {{");
            services.push(service);
        }
        let (name, input) = (snake(rpc.method.name()), rust_path(rpc.method.input().full_name()));
        let _ = writeln!(
            out,
            "    /// {}\n    async fn {name}(&self, caller: &C, request: {input}) -> Result<{}, Status>;",
            comment(rpc),
            result_type(rpc)
        );
    }
    out.push_str("}\n\n");
    out.push_str(
        "/// Decides about calls before a service gets them, and recognizes repeated ones.\n#[async_trait]\npub trait \
         Gate<C>: Send + Sync {\n    /// Returns an error if the caller may not call the method, for the instance it \
         names.\n    async fn permit(&self, caller: &C, method: &'static Method, instance: Option<&str>) -> Result<(), \
         Status>;\n    /// Returns an error unless answers contain the writes with these versions.\n    async fn reached(&self, caller: \
         &C, versions: &[String]) -> Result<(), Status>;\n    /// Returns the encoded result of the same call with the same id.\n    fn earlier(&self, caller: &C, \
         id: &str, call: &[u8]) -> Result<Option<Vec<u8>>, Status>;\n    fn remember(&self, caller: &C, id: &str, call: \
         Vec<u8>, result: Vec<u8>);\n}\n\n",
    );
    let _ = writeln!(out, "/// All services.\npub trait Services<C>: Gate<C> + {} {{}}\n", join(&services));
    let _ = writeln!(out, "impl<C, T: Gate<C> + {}> Services<C> for T {{}}\n", join(&services));
}

fn join(services: &[String]) -> String {
    services.iter().map(|service| format!("{service}<C>")).collect::<Vec<_>>().join(" + ")
}

fn dispatch(api: &Api, out: &mut String) {
    out.push_str(
        "/// Calls a method by its index in `METHODS`.\npub async fn call<C: Sync, S: Services<C>>(services: &S, caller: &C, \
         method: usize, payload: Payload) -> Result<Reply, Status> {\n    let codec = payload.codec();\n    match method {\n",
    );
    for (index, rpc) in api.methods.iter().enumerate() {
        let (name, input) = (snake(rpc.method.name()), rust_path(rpc.method.input().full_name()));
        let instance = instance(rpc);
        let _ = writeln!(
            out,
            "        {index} => {{\n            let request: {input} = payload.read()?;\n            \
             services.permit(caller, &METHODS[{index}], {instance}).await?;"
        );
        if let Some(field) = rpc.method.input().get_field_by_name("at_least") {
            let versions =
                if field.is_list() { "&request.at_least" } else { "std::slice::from_ref(&request.at_least)" };
            let _ = writeln!(out, "            services.reached(caller, {versions}).await?;");
        }
        if has(rpc, "fields") {
            out.push_str("            let fields = request.fields.clone().unwrap_or_default().paths;\n");
            let _ = match is_selectable(rpc) {
                true => writeln!(out, "            fields::check(response(&METHODS[{index}])?, &fields)?;"),
                false => writeln!(out, "            fields::check_none(&fields)?;"),
            };
        }
        let has_id = has(rpc, "request_id");
        if has_id {
            out.push_str(
                "            let id = request.request_id.clone();\n            let sent = \
                 prost::Message::encode_to_vec(&request);\n            if let Some(earlier) = services.earlier(caller, &id, \
                 &sent)? {\n",
            );
            let _ = writeln!(
                out,
                "                let result: {} = prost::Message::decode(&earlier[..]).map_err(Status::internal)?;\n                \
                 return {};\n            }}",
                result_type(rpc),
                encode(rpc, index)
            );
        }
        let _ = writeln!(out, "            let result = services.{name}(caller, request).await?;");
        if has_id {
            out.push_str("            services.remember(caller, &id, sent, prost::Message::encode_to_vec(&result));\n");
        }
        let _ = match output(rpc) {
            "Message" => writeln!(out, "            {}", encode(rpc, index)),
            "Stream" => writeln!(out, "            Ok(codec.stream(result))"),
            "Raw" => writeln!(out, "            Ok(codec.raw(result))"),
            _ => writeln!(out, "            Ok(codec.raw_stream(result))"),
        };
        out.push_str("        }\n");
    }
    out.push_str("        _ => Err(Status::method_not_served()),\n    }\n}\n");
    out.push_str(RESPONSE);
}

/// The fields of a result that can be selected.
const RESPONSE: &str = "\nfn response(method: &'static Method) -> Result<&'static Message, Status> {\n    \
                        method.response.ok_or_else(|| Status::internal(\"the result has no table of fields\"))\n}\n";

/// The expression for the instance that a request names.
fn instance(rpc: &Rpc) -> String {
    match rpc.instance.split_once('.') {
        _ if rpc.instance.is_empty() => "None".to_owned(),
        None => format!("Some(&request.{})", rpc.instance),
        Some((message, field)) => {
            format!("Some(request.{message}.as_ref().map_or(\"\", |found| found.{field}.as_str()))")
        }
    }
}
