//! Tests of the whole component against an in-memory API with virtual time.

mod crowds;
mod failback;
mod placing;
mod plane;
