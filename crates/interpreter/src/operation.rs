//! What can be asked of a kind.

/// One question. The names are those of Karmada's API.
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

    /// As in `operations` of a webhook and `--operation` of a command.
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

    /// The operation of a name, in any case of letters.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.name().eq_ignore_ascii_case(name))
    }
}

/// Why a question has no answer. The text is for users: it ends up in conditions and events.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InterpretError(pub String);

pub type Answer<T> = Result<T, InterpretError>;
