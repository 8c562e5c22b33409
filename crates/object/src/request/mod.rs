//! The vocabulary of API requests: verbs, subresources, options and users, shared by the server and its clients.

mod options;
mod subresource;
pub mod user;
mod verb;

pub use options::{
    DeleteOptions, FieldValidation, ListOptions, PatchKind, Preconditions, PropagationPolicy, VersionMatch,
    WriteOptions,
};
pub use subresource::Subresource;
pub use user::User;
pub use verb::Verb;
