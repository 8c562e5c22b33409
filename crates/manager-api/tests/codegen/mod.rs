//! Generates Rust code, descriptors and OpenAPI documents from the proto files.

mod openapi;
mod services;

use std::path::Path;

use prost_reflect::{DescriptorPool, DynamicMessage, FieldDescriptor, Kind, MethodDescriptor, Value};
use protox::prost::Message;

pub const PACKAGE: &str = "flotilla.manager.v1alpha1";

/// The content of a file by its name.
pub type NamedFile = (String, Vec<u8>);

/// Returns the generated files.
pub fn generate(proto: &Path) -> Result<Vec<NamedFile>, Box<dyn std::error::Error>> {
    let folder = proto.join(PACKAGE.replace('.', "/"));
    let mut names: Vec<String> = std::fs::read_dir(&folder)?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.ends_with(".proto"))
        .map(|name| format!("{}/{name}", PACKAGE.replace('.', "/")))
        .collect();
    names.sort();
    let mut compiler = protox::Compiler::new([proto])?;
    compiler.include_imports(true).include_source_info(true).open_files(&names)?;
    let pool = compiler.descriptor_pool();
    let api = Api::new(&pool)?;
    Ok(vec![
        ("messages.rs".to_owned(), messages(&pool, compiler.file_descriptor_set())?.into_bytes()),
        ("services.rs".to_owned(), services::render(&api).into_bytes()),
        ("descriptors.bin".to_owned(), descriptors(&compiler)?),
        ("openapi-v2.json".to_owned(), openapi::v2(&api).into_bytes()),
        ("openapi-v3.json".to_owned(), openapi::v3(&api).into_bytes()),
    ])
}

/// The services in the order of the table.
pub struct Api {
    pub methods: Vec<Rpc>,
}

/// An RPC with its options.
pub struct Rpc {
    pub method: MethodDescriptor,
    pub routes: Vec<HttpRoute>,
    pub permission: String,
    pub instance: String,
}

/// A route of an RPC.
pub struct HttpRoute {
    pub verb: String,
    pub path: String,
    pub body: String,
}

impl Api {
    fn new(pool: &DescriptorPool) -> Result<Self, String> {
        let mut methods = Vec::new();
        for service in pool.services().filter(|service| service.package_name() == PACKAGE) {
            for method in service.methods() {
                methods.push(Rpc::read(pool, method)?);
            }
        }
        Ok(Self { methods })
    }
}

fn text(message: &DynamicMessage, field: &str) -> String {
    message.get_field_by_name(field).and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

impl Rpc {
    fn read(pool: &DescriptorPool, method: MethodDescriptor) -> Result<Self, String> {
        let options = method.options();
        let extension = |name: &str| -> Result<DynamicMessage, String> {
            let extension = pool.get_extension_by_name(name).ok_or_else(|| format!("{name} is not defined"))?;
            if !options.has_extension(&extension) {
                return Err(format!("{} has no option {name}", method.full_name()));
            }
            let value = options.get_extension(&extension).into_owned();
            value.as_message().cloned().ok_or_else(|| format!("{name} is not a message"))
        };
        let rule = extension("google.api.http")?;
        let mut routes = vec![route(&rule)?];
        if let Some(Value::List(more)) = rule.get_field_by_name("additional_bindings").as_deref() {
            for rule in more.iter().filter_map(Value::as_message) {
                routes.push(route(rule)?);
            }
        }
        let permission = extension(&format!("{PACKAGE}.permission"))?;
        let instance = text(&permission, "instance");
        Ok(Self { permission: text(&permission, "name"), instance, routes, method: method.clone() })
    }
}

fn route(rule: &DynamicMessage) -> Result<HttpRoute, String> {
    let found = ["get", "put", "post", "delete", "patch"].into_iter().find(|verb| !text(rule, verb).is_empty());
    let verb = found.ok_or("a route has no method")?;
    Ok(HttpRoute { verb: verb.to_uppercase(), path: text(rule, verb), body: text(rule, "body") })
}

/// The definitions without comments, which reflection does not need.
fn descriptors(compiler: &protox::Compiler) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    let mut pool = DescriptorPool::new();
    pool.decode_file_descriptor_set(&compiler.encode_file_descriptor_set()[..])?;
    let mut set = Vec::new();
    for file in pool.files() {
        let mut stripped = file.file_descriptor_proto().clone();
        stripped.source_code_info = None;
        // The options of methods are extensions, which only the encoded form keeps.
        let encoded = match file.package_name() == PACKAGE {
            true => without_source_info(file.encode_to_vec())?,
            false => stripped.encode_to_vec(),
        };
        protox::prost::encoding::bytes::encode(1, &encoded, &mut set);
    }
    Ok(set)
}

/// Removes the field `source_code_info` of an encoded file.
fn without_source_info(encoded: Vec<u8>) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    use protox::prost::bytes::Buf;
    use protox::prost::encoding::{DecodeContext, decode_key, skip_field};
    const SOURCE_CODE_INFO: u32 = 9;
    let (mut rest, mut kept) = (&encoded[..], Vec::new());
    while rest.has_remaining() {
        let start = rest;
        let (tag, wire_type) = decode_key(&mut rest)?;
        skip_field(wire_type, tag, &mut rest, DecodeContext::default())?;
        if tag != SOURCE_CODE_INFO {
            kept.extend_from_slice(&start[..start.len() - rest.len()]);
        }
    }
    Ok(kept)
}

fn messages(
    pool: &DescriptorPool,
    set: protox::prost_reflect::prost_types::FileDescriptorSet,
) -> Result<String, Box<dyn std::error::Error>> {
    let mut config = prost_build::Config::new();
    config.btree_map(["."]);
    config.extern_path(".google.api.HttpBody", "::transcode::call::HttpBody");
    config.disable_comments(["."]);
    for message in pool.all_messages().filter(|message| message.package_name() == PACKAGE && !message.is_map_entry()) {
        let name = format!(".{}", message.full_name());
        config.type_attribute(&name, "#[derive(serde::Serialize, serde::Deserialize)]");
        config.type_attribute(&name, "#[serde(default, deny_unknown_fields)]");
        for field in message.fields() {
            config.field_attribute(format!("{name}.{}", field.name()), attribute(&field));
        }
    }
    let module = prost_build::Module::from_protobuf_package_name(PACKAGE);
    let files = set.file.into_iter();
    let requests = files.map(|file| (prost_build::Module::from_protobuf_package_name(file.package()), file)).collect();
    let mut generated = config.generate(requests)?;
    let mut code = generated.remove(&module).unwrap_or_default();
    for enumeration in pool.all_enums().filter(|found| found.parent_file().package_name() == PACKAGE) {
        let rust = rust_path(enumeration.full_name());
        code.push_str(&format!(
            "impl crate::json::Named for {rust} {{\n    fn name(self) -> &'static str {{\n        self.as_str_name()\n    \
             }}\n    fn named(name: &str) -> Option<Self> {{\n        Self::from_str_name(name)\n    }}\n}}\n"
        ));
    }
    Ok(format!("// Generated from proto files by `cargo xtask codegen`. Do not edit.\n{code}"))
}

/// The path of a type in the generated module.
pub fn rust_path(full_name: &str) -> String {
    let local = full_name.strip_prefix(PACKAGE).unwrap_or(full_name).trim_start_matches('.');
    let parts: Vec<&str> = local.split('.').collect();
    match parts.split_last() {
        Some((last, parents)) if !parents.is_empty() => {
            let modules: Vec<String> = parents.iter().map(|parent| snake(parent)).collect();
            format!("{}::{last}", modules.join("::"))
        }
        _ => local.to_owned(),
    }
}

pub fn snake(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let mut text = String::new();
    for (at, letter) in letters.iter().enumerate() {
        let follows_lower = at > 0 && letters[at - 1].is_lowercase();
        let ends_upper = at > 0 && letters.get(at + 1).is_some_and(|next| next.is_lowercase());
        if letter.is_uppercase() && (follows_lower || ends_upper) {
            text.push('_');
        }
        text.extend(letter.to_lowercase());
    }
    text
}

/// The attributes that give a field its JSON form.
fn attribute(field: &FieldDescriptor) -> String {
    let mut parts = vec![format!("rename = {:?}", field.json_name())];
    if field.json_name() != field.name() {
        parts.push(format!("alias = {:?}", field.name()));
    }
    let with = |module: &str| format!("with = \"crate::json::{module}\"");
    if field.is_map() {
        let value = match field.kind() {
            Kind::Message(entry) => entry.map_entry_value_field().kind(),
            other => other,
        };
        if value == Kind::Int64 {
            parts.push(with("int64_map"));
        }
    } else if !field.is_list() {
        match field.kind() {
            Kind::Int64 => parts.push(with("int64")),
            Kind::Enum(found) => {
                // Attributes of a nested type are resolved in the module of the message.
                let path = format!("crate::messages::{}", rust_path(found.full_name()));
                parts.push(format!("serialize_with = \"crate::json::enumeration::serialize::<{path}, _>\""));
                parts.push(format!("deserialize_with = \"crate::json::enumeration::deserialize::<{path}, _>\""));
            }
            Kind::Message(message) => match message.full_name() {
                "google.protobuf.Timestamp" => parts.push(with("timestamp")),
                "google.protobuf.FieldMask" => parts.push(with("field_mask")),
                "google.protobuf.Struct" => parts.push(with("object")),
                _ => {}
            },
            _ => {}
        }
        if field.supports_presence() {
            parts.push("skip_serializing_if = \"Option::is_none\"".to_owned());
        }
    }
    format!("#[serde({})]", parts.join(", "))
}
