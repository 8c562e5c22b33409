//! Interpreter operations.

/// One operation. The names are those of Karmada's API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operation {
    InterpretReplica,
    InterpretComponent,
    ReviseReplica,
    Retain,
    AggregateStatus,
    InterpretDependency,
    InterpretStatus,
    InterpretHealth,
}

impl Operation {
    pub const ALL: [Self; 8] = [
        Self::InterpretReplica,
        Self::InterpretComponent,
        Self::ReviseReplica,
        Self::Retain,
        Self::AggregateStatus,
        Self::InterpretDependency,
        Self::InterpretStatus,
        Self::InterpretHealth,
    ];

    /// The name in `operations` of a webhook and `--operation` of a command.
    pub fn name(self) -> &'static str {
        match self {
            Self::InterpretReplica => "InterpretReplica",
            Self::InterpretComponent => "InterpretComponent",
            Self::ReviseReplica => "ReviseReplica",
            Self::Retain => "Retain",
            Self::AggregateStatus => "AggregateStatus",
            Self::InterpretDependency => "InterpretDependency",
            Self::InterpretStatus => "InterpretStatus",
            Self::InterpretHealth => "InterpretHealth",
        }
    }

    /// Parses the name of an operation, case-insensitively.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.name().eq_ignore_ascii_case(name))
    }
}

/// The error of an operation. The text is for users: it appears in conditions and events.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InterpretError(pub String);

pub type InterpretResult<T> = Result<T, InterpretError>;
