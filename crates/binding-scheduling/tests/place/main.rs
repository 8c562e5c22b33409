//! The room as a whole, over an API in memory and in virtual time.

mod crowds;
mod failback;
mod placing;
mod plane;
