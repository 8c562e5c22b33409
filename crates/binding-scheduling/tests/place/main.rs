//! Tests of the whole component against an in-memory API with virtual time.

mod concurrency;
mod failback;
mod placing;
mod plane;
