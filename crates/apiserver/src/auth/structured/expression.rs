//! CEL expressions over claims, users and access reviews.

use std::sync::LazyLock;

use cel::{Activation, Budget, Env, Program, Type};
use serde_json::{Map, Value};

/// An expression that must be true, and the message for when it is not.
#[derive(Clone, Debug)]
pub struct TokenCondition {
    pub program: Program,
    pub message: String,
}

fn texts() -> Type {
    Type::list(Type::String)
}

fn object(name: &str, fields: &[(&str, Type)]) -> Type {
    Type::object(name, fields.iter().map(|(name, ty)| ((*name).to_owned(), ty.clone())))
}

/// `claims`: the claims of a token.
pub(super) static CLAIMS: LazyLock<Env> =
    LazyLock::new(|| Env::builder().variable("claims", Type::map(Type::String, Type::Dyn)).build());

/// `user`: the user that the mappings made of a token.
pub(super) static USER: LazyLock<Env> = LazyLock::new(|| {
    let user = object(
        "kubernetes.UserInfo",
        &[
            ("username", Type::String),
            ("uid", Type::String),
            ("groups", texts()),
            ("extra", Type::map(Type::String, texts())),
        ],
    );
    Env::builder().variable("user", user).build()
});

/// `request`: the spec of a SubjectAccessReview.
pub(super) static ACCESS: LazyLock<Env> = LazyLock::new(|| {
    let named = |names: &[&'static str]| names.iter().map(|name| (*name, Type::String)).collect::<Vec<_>>();
    let resource = named(&["namespace", "verb", "group", "version", "resource", "subresource", "name"]);
    let request = object(
        "kubernetes.SubjectAccessReviewSpec",
        &[
            ("user", Type::String),
            ("uid", Type::String),
            ("groups", texts()),
            ("extra", Type::map(Type::String, texts())),
            ("resourceAttributes", object("kubernetes.ResourceAttributes", &resource)),
            ("nonResourceAttributes", object("kubernetes.NonResourceAttributes", &named(&["path", "verb"]))),
        ],
    );
    Env::builder().variable("request", request).build()
});

/// Compiles a condition; its type must be `bool`.
pub(super) fn condition(env: &Env, expression: &str) -> Result<Program, String> {
    let program = env.compile(expression).map_err(|error| error.to_string())?;
    match program.result_type() {
        Type::Bool => Ok(program),
        other => Err(format!("must evaluate to bool, not {other}")),
    }
}

/// One condition that is false decides; an error counts only when no condition is false.
pub fn conditions_hold(conditions: &[Program], variable: &str, data: &Map<String, Value>) -> Result<bool, String> {
    let variables = Activation::new().with(variable, cel::Value::Map(cel::Map::Json { data, schema: None }));
    let mut budget = Budget::for_match_conditions();
    let mut problem = None;
    for condition in conditions {
        match condition.eval(&variables, &mut budget) {
            Ok(cel::Value::Bool(true)) => {}
            Ok(cel::Value::Bool(false)) => return Ok(false),
            Ok(_) => problem = Some(format!("{:?} is not a bool", condition.expression())),
            Err(error) => problem = Some(format!("{:?}: {error}", condition.expression())),
        }
    }
    problem.map_or(Ok(true), Err)
}

/// Returns true if the expression reads `claims.FIELD`.
pub(super) fn reads_claim(expression: &str, field: &str) -> bool {
    let compact: String = expression.chars().filter(|c| !c.is_whitespace()).collect();
    ["claims.", "claims.?"].iter().any(|prefix| {
        let wanted = format!("{prefix}{field}");
        compact.match_indices(&wanted).any(|(at, found)| {
            let is_word = |c: char| c.is_alphanumeric() || c == '_';
            let before = compact[..at].chars().next_back().is_some_and(|c| is_word(c) || c == '.');
            let after = compact[at + found.len()..].chars().next().is_some_and(is_word);
            !before && !after
        })
    })
}
