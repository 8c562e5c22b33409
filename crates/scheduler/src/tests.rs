//! Cases of whole decisions.
