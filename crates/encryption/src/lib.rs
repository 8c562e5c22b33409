//! Encryption at rest: Kubernetes' `EncryptionConfiguration` between the values of a store and what its engine keeps.
//!
//! Values have the format of kube-apiserver: `k8s:enc:PROVIDER:VERSION:NAME:` and the bytes of the provider, with the storage key
//! authenticated where the provider does so. [`Encryption`] is the transformer of a [`store::Transformed`]; [`rewrite`] brings
//! stored values to the current key.

mod chain;
mod ciphers;
pub mod config;
pub mod file;
mod kms;
pub mod reload;
pub mod rewrite;
mod rules;
mod transformer;

pub use chain::Sealing;
pub use rules::SHARED_KEYS;
pub use transformer::{Encryption, OpenError};
