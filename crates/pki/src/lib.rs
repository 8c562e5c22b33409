//! Certificates, keys and signed tokens for the control plane's own identity and for authenticating callers.
//!
//! Independent of HTTP, Kubernetes objects and clocks: callers pass `now`, directories and keys in.

pub mod authority;
pub mod certificate;
pub mod csr;
pub mod der;
pub mod error;
pub mod identity;
pub mod jwt;
pub mod key;
pub mod key_dir;
pub mod kubeconfig;
pub mod oidc;
pub mod pem;
pub mod rotation;
pub mod sealing;
pub mod subject;
pub mod tls;
pub mod token;
pub mod usage;
