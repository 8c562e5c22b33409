//! The service `grpc.reflection.v1.ServerReflection`: the definitions of the API, for clients that have no proto files.

use std::collections::BTreeMap;

use bytes::Bytes;
use object::Status;
use prost::Message;

pub const PATHS: &[&str] = &[
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];

const NOT_FOUND: i32 = 5;
const UNIMPLEMENTED: i32 = 12;

/// The files of an API by name and by the symbols they define.
pub struct Definitions {
    files: BTreeMap<String, Vec<u8>>,
    dependencies: BTreeMap<String, Vec<String>>,
    symbols: BTreeMap<String, String>,
    services: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
struct FileSet {
    #[prost(bytes = "vec", repeated, tag = "1")]
    file: Vec<Vec<u8>>,
}

/// The parts of a file descriptor that are looked up.
#[derive(Clone, PartialEq, Message)]
struct File {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    package: String,
    #[prost(string, repeated, tag = "3")]
    dependency: Vec<String>,
    #[prost(message, repeated, tag = "4")]
    message_type: Vec<MessageType>,
    #[prost(message, repeated, tag = "5")]
    enum_type: Vec<Named>,
    #[prost(message, repeated, tag = "6")]
    service: Vec<Service>,
}

#[derive(Clone, PartialEq, Message)]
struct MessageType {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, repeated, tag = "3")]
    nested_type: Vec<MessageType>,
    #[prost(message, repeated, tag = "4")]
    enum_type: Vec<Named>,
}

#[derive(Clone, PartialEq, Message)]
struct Named {
    #[prost(string, tag = "1")]
    name: String,
}

#[derive(Clone, PartialEq, Message)]
struct Service {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, repeated, tag = "2")]
    method: Vec<Named>,
}

#[derive(Clone, PartialEq, Message)]
struct Request {
    #[prost(string, tag = "1")]
    host: String,
    #[prost(oneof = "Question", tags = "3, 4, 5, 6, 7")]
    question: Option<Question>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Question {
    #[prost(string, tag = "3")]
    FileByFilename(String),
    #[prost(string, tag = "4")]
    FileContainingSymbol(String),
    #[prost(bytes = "vec", tag = "5")]
    FileContainingExtension(Vec<u8>),
    #[prost(string, tag = "6")]
    AllExtensionNumbersOfType(String),
    #[prost(string, tag = "7")]
    ListServices(String),
}

#[derive(Clone, PartialEq, Message)]
struct Response {
    #[prost(string, tag = "1")]
    valid_host: String,
    #[prost(bytes = "vec", tag = "2")]
    original_request: Vec<u8>,
    #[prost(oneof = "Answer", tags = "4, 6, 7")]
    answer: Option<Answer>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Answer {
    #[prost(message, tag = "4")]
    Files(FileSet),
    #[prost(message, tag = "6")]
    Services(ServiceList),
    #[prost(message, tag = "7")]
    Error(Failure),
}

#[derive(Clone, PartialEq, Message)]
struct ServiceList {
    #[prost(message, repeated, tag = "1")]
    service: Vec<Named>,
}

#[derive(Clone, PartialEq, Message)]
struct Failure {
    #[prost(int32, tag = "1")]
    error_code: i32,
    #[prost(string, tag = "2")]
    error_message: String,
}

impl Definitions {
    /// Reads an encoded `FileDescriptorSet`.
    pub fn new(descriptor_set: &[u8]) -> Result<Self, prost::DecodeError> {
        let mut definitions = Self {
            files: BTreeMap::new(),
            dependencies: BTreeMap::new(),
            symbols: BTreeMap::new(),
            services: Vec::new(),
        };
        for bytes in FileSet::decode(descriptor_set)?.file {
            let file = File::decode(&bytes[..])?;
            definitions.add_symbols(&file);
            definitions.dependencies.insert(file.name.clone(), file.dependency);
            definitions.files.insert(file.name, bytes);
        }
        Ok(definitions)
    }

    fn add_symbols(&mut self, file: &File) {
        let mut add = |name: String| drop(self.symbols.insert(name, file.name.clone()));
        let package = &file.package;
        for service in &file.service {
            let name = format!("{package}.{}", service.name);
            for method in &service.method {
                add(format!("{name}.{}", method.name));
            }
            add(name.clone());
            self.services.push(name);
        }
        for named in &file.enum_type {
            add(format!("{package}.{}", named.name));
        }
        let mut open: Vec<(String, &MessageType)> =
            file.message_type.iter().map(|message| (package.clone(), message)).collect();
        while let Some((parent, message)) = open.pop() {
            let name = format!("{parent}.{}", message.name);
            open.extend(message.nested_type.iter().map(|nested| (name.clone(), nested)));
            for named in &message.enum_type {
                add(format!("{name}.{}", named.name));
            }
            add(name);
        }
    }

    pub fn has_service(&self, name: &str) -> bool {
        self.services.iter().any(|service| service == name)
    }

    /// Answers one request of a client.
    pub fn answer(&self, request: Bytes) -> Result<Bytes, Status> {
        let decoded = Request::decode(request.clone());
        let decoded = decoded.map_err(|error| Status::bad_request(format!("the message cannot be read: {error}")))?;
        let answer = match decoded.question {
            Some(Question::FileByFilename(name)) => self.with_dependencies(&name),
            Some(Question::FileContainingSymbol(symbol)) => {
                self.symbols.get(&symbol).and_then(|file| self.with_dependencies(file))
            }
            Some(Question::ListServices(_)) => {
                let service = self.services.iter().map(|name| Named { name: name.clone() }).collect();
                Some(Answer::Services(ServiceList { service }))
            }
            _ => Some(failure(UNIMPLEMENTED, "extensions are not listed")),
        };
        let answer = answer.unwrap_or_else(|| failure(NOT_FOUND, "not found"));
        let response = Response { valid_host: decoded.host, original_request: request.to_vec(), answer: Some(answer) };
        Ok(response.encode_to_vec().into())
    }

    /// A file and everything it imports.
    fn with_dependencies(&self, name: &str) -> Option<Answer> {
        self.files.get(name)?;
        let (mut names, mut at) = (vec![name.to_owned()], 0);
        while let Some(name) = names.get(at).cloned() {
            for dependency in self.dependencies.get(&name).into_iter().flatten() {
                if !names.contains(dependency) {
                    names.push(dependency.clone());
                }
            }
            at += 1;
        }
        let file = names.iter().filter_map(|name| self.files.get(name).cloned()).collect();
        Some(Answer::Files(FileSet { file }))
    }
}

fn failure(code: i32, message: &str) -> Answer {
    Answer::Error(Failure { error_code: code, error_message: message.to_owned() })
}
