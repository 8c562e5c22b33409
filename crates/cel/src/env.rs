//! The environment expressions are compiled in: variables with their types, and function libraries.

use crate::check::{check, literals};
use crate::cost;
use crate::macros::MacroSet;
use crate::parse::parse;
use crate::plan::plan;
use crate::program::Program;
use crate::schema::Decl;
use crate::signatures::{self, Overload, Signatures};
use crate::source::{CompileError, SourceText};
use crate::types::{Type, opaque};
use std::collections::HashMap;
use std::sync::Arc;

/// Function libraries beyond Kubernetes' own set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Library {
    /// `math.greatest`, `math.abs`, bit operations…
    Math,
    /// `base64.encode`, `base64.decode`.
    Encoders,
    /// `cel.bind`.
    Bindings,
    /// `Object{…}`, `JSONPatch{…}` and `jsonpatch.escapeKey`, for mutating admission policies.
    Patches,
}

#[derive(Debug, Clone)]
pub(crate) struct Variable {
    pub(crate) ty: Type,
}

/// The variables and functions available to expressions. By default exactly those of Kubernetes 1.36.
#[derive(Debug, Clone)]
pub struct Env {
    variables: HashMap<String, Variable>,
    functions: Vec<Arc<Signatures>>,
    macro_set: MacroSet,
    size_root: Option<Arc<Decl>>,
    patch_types: bool,
}

#[derive(Debug, Clone)]
pub struct EnvBuilder {
    env: Env,
}

impl Env {
    pub fn builder() -> EnvBuilder {
        let env = Env {
            variables: HashMap::new(),
            functions: vec![signatures::kubernetes()],
            macro_set: MacroSet::default(),
            size_root: None,
            patch_types: false,
        };
        EnvBuilder { env }
    }

    /// Parses, checks, estimates and plans an expression.
    pub fn compile(&self, expression: &str) -> Result<Program, CompileError> {
        let source = SourceText::new(expression);
        let ast = parse(&source, self.macro_set)?;
        let checked = check(self, ast).map_err(|issues| CompileError::of_issues(&source, issues))?;
        let issues = literals::check_literals(&checked);
        if !issues.is_empty() {
            return Err(CompileError::of_issues(&source, issues));
        }
        let static_cost = cost::estimate(&checked, self.size_root.as_ref());
        let result_type = checked.type_of(&checked.ast.root).clone();
        let planned = plan(&checked).map_err(CompileError::of_program)?;
        Ok(Program::new(expression, planned, result_type, static_cost, checked.variables))
    }

    pub(crate) fn variable(&self, name: &str) -> Option<&Variable> {
        self.variables.get(name)
    }

    pub(crate) fn overloads(&self, function: &str) -> impl Iterator<Item = &Overload> {
        self.functions.iter().filter_map(move |signatures| signatures.get(function)).flatten()
    }

    /// A type whose values an expression may build.
    pub(crate) fn record_type(&self, name: &str) -> Option<Type> {
        self.patch_types.then(|| Type::of_record(name)).flatten()
    }

    /// A type that can be named in expressions.
    pub(crate) fn type_named(&self, name: &str) -> Option<Type> {
        named_type(name)
    }
}

pub(crate) fn named_type(name: &str) -> Option<Type> {
    Some(match name {
        "bool" => Type::Bool,
        "bytes" => Type::Bytes,
        "double" => Type::Double,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "string" => Type::String,
        "list" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "null_type" => Type::Null,
        "type" => Type::Type(None),
        "google.protobuf.Timestamp" => Type::Timestamp,
        "google.protobuf.Duration" => Type::Duration,
        "optional_type" => Type::optional(Type::Dyn),
        _ => Type::Opaque(opaque::ALL.iter().find(|known| **known == name)?),
    })
}

impl EnvBuilder {
    pub fn variable(mut self, name: impl Into<String>, ty: Type) -> Self {
        self.env.variables.insert(name.into(), Variable { ty });
        self
    }

    pub fn library(mut self, library: Library) -> Self {
        match library {
            Library::Math => self.env.functions.push(signatures::math()),
            Library::Encoders => self.env.functions.push(signatures::encoders()),
            Library::Bindings => self.env.macro_set.bindings = true,
            Library::Patches => {
                self.env.functions.push(signatures::patch());
                self.env.patch_types = true;
            }
        }
        self
    }

    /// Bounds the data of variables, for cost estimates. Kubernetes has one such root per rule: the schema of `self`,
    /// which bounds `oldSelf` too.
    pub fn size_root(mut self, root: Arc<Decl>) -> Self {
        self.env.size_root = Some(root);
        self
    }

    pub fn build(self) -> Env {
        self.env
    }
}
