//! The `flotilla` command.
fn main() {}
