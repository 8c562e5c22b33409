//! Kubernetes' dialect of the Common Expression Language: parse, check, estimate, evaluate.
//!
//! [`Env`] defines the variables and functions, [`Env::compile`] creates a [`Program`], and [`Program::eval`] runs it
//! on JSON data within a [`Budget`]. [`rules`] applies the `x-kubernetes-validations` rules of a schema to whole
//! objects. Nothing here reads a clock or does I/O.

mod ast;
mod check;
mod cost;
mod env;
mod escape;
mod eval;
mod lex;
mod library;
mod macros;
mod parse;
mod plan;
mod program;
pub mod rules;
mod schema;
mod signatures;
mod source;
pub mod types;
mod value;

pub use cost::range::CostRange;
pub use env::{Env, EnvBuilder, Library};
pub use escape::{escape, is_identifier, unescape};
pub use library::authorizer::{
    Attributes, Authorization, Authorizer, AuthorizerDecision, CheckSubject, CheckTarget, ResourceTarget,
};
pub use parse::{EXPRESSION_DEPTH_MAX, EXPRESSION_SIZE_MAX};
pub use program::{
    Activation, Budget, MATCH_CONDITIONS_COST_BUDGET, PER_CALL_COST_LIMIT, Program, VALIDATION_COST_BUDGET,
};
pub use schema::{Decl, REQUEST_BYTES_MAX, Schema, type_of_schema};
pub use source::CompileError;
pub use types::{ObjectType, Type};
pub use value::time::{Duration, Timestamp};
pub use value::{EvalError, List, Map, Opaque, Record, Text, Value};
