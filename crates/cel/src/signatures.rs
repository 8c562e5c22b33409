//! The functions of expressions, parsed from the tables in `signatures/`.

use crate::types::{Type, opaque};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

/// One way to call a function.
#[derive(Debug)]
pub(crate) struct Overload {
    pub(crate) id: &'static str,
    /// Called as `receiver.function(…)`; the receiver is then the first of `args`.
    pub(crate) is_member: bool,
    pub(crate) args: Vec<Type>,
    pub(crate) result: Type,
    pub(crate) has_params: bool,
}

pub(crate) type Signatures = HashMap<&'static str, Vec<Overload>>;

static KUBERNETES: LazyLock<Arc<Signatures>> =
    LazyLock::new(|| Arc::new(read_table(include_str!("signatures/kubernetes.txt"))));
static MATH: LazyLock<Arc<Signatures>> = LazyLock::new(|| Arc::new(read_table(include_str!("signatures/math.txt"))));
static ENCODERS: LazyLock<Arc<Signatures>> =
    LazyLock::new(|| Arc::new(read_table(include_str!("signatures/encoders.txt"))));
static PATCH: LazyLock<Arc<Signatures>> = LazyLock::new(|| Arc::new(read_table(include_str!("signatures/patch.txt"))));

pub(crate) fn kubernetes() -> Arc<Signatures> {
    KUBERNETES.clone()
}

pub(crate) fn math() -> Arc<Signatures> {
    MATH.clone()
}

pub(crate) fn encoders() -> Arc<Signatures> {
    ENCODERS.clone()
}

pub(crate) fn patch() -> Arc<Signatures> {
    PATCH.clone()
}

fn read_table(table: &'static str) -> Signatures {
    let mut signatures = Signatures::new();
    let mut function = "";
    for line in table.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.strip_prefix("  ") {
            None => function = line,
            Some(overload) => signatures.entry(function).or_default().push(read_overload(overload)),
        }
    }
    signatures
}

fn read_overload(line: &'static str) -> Overload {
    let (id, signature) = line.split_once(' ').expect("an overload line has an id and a signature");
    let mut reader = TypeReader { rest: signature };
    let receiver = (!reader.rest.starts_with('(')).then(|| reader.read());
    reader.skip(".");
    reader.skip("(");
    let mut args: Vec<Type> = receiver.iter().cloned().collect();
    while !reader.skip(")") {
        args.push(reader.read());
        reader.skip(", ");
    }
    reader.skip(" -> ");
    let result = reader.read();
    let has_params = reader.rest.is_empty() && signature.contains(['A', 'B', 'K', 'V', 'T']);
    Overload { id, is_member: receiver.is_some(), args, result, has_params }
}

struct TypeReader {
    rest: &'static str,
}

impl TypeReader {
    fn skip(&mut self, prefix: &str) -> bool {
        let stripped = self.rest.strip_prefix(prefix);
        self.rest = stripped.unwrap_or(self.rest);
        stripped.is_some()
    }

    fn read(&mut self) -> Type {
        let dotted_end = self.rest.find(".(").unwrap_or(self.rest.len());
        let end = self.rest.find(['(', ')', ',', ' ']).unwrap_or(self.rest.len()).min(dotted_end);
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        match name {
            "bool" => Type::Bool,
            "int" => Type::Int,
            "uint" => Type::Uint,
            "double" => Type::Double,
            "string" => Type::String,
            "bytes" => Type::Bytes,
            "timestamp" => Type::Timestamp,
            "duration" => Type::Duration,
            "dyn" => Type::Dyn,
            _ => {
                let mut chars = name.chars();
                match (chars.next(), chars.next()) {
                    (Some(param), None) => Type::Param(param),
                    _ => self.read_named(name),
                }
            }
        }
    }

    fn read_named(&mut self, name: &str) -> Type {
        if let Some(known) = opaque::ALL.iter().find(|known| **known == name) {
            return Type::Opaque(known);
        }
        self.skip("(");
        let first = self.read();
        let read = match name {
            "list" => Type::list(first),
            "optional_type" => Type::optional(first),
            "type" => Type::Type(Some(Arc::new(first))),
            "map" => {
                self.skip(", ");
                Type::map(first, self.read())
            }
            _ => panic!("the signature tables name an unknown type: {name}"),
        };
        self.skip(")");
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_complete() {
        let all = kubernetes();
        assert_eq!(all.values().map(Vec::len).sum::<usize>(), 340);
        let get = &all["getQuery"][0];
        assert!(get.is_member && get.args == [Type::Opaque(opaque::URL)]);
        assert_eq!(get.result.to_string(), "map(string, list(string))");
        let index = &all["_[?_]"][3];
        assert_eq!(index.args[0].to_string(), "optional_type(map(K, V))");
        assert!(all["optional.none"][0].args.is_empty());
        assert!(math().contains_key("math.abs") && encoders().contains_key("base64.encode"));
    }
}
