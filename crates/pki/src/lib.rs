//! Certificates, keys and signed tokens: everything the control plane needs to prove who it is and to check who calls.
//!
//! Knows nothing about HTTP, Kubernetes objects or clocks: callers pass `now`, directories and keys in.

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
pub mod subject;
pub mod tls;
pub mod token;
pub mod usage;
