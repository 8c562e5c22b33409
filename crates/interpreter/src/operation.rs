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

/// Why a question has no answer. The text is for users: it ends up in conditions and events.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InterpretError(pub String);
