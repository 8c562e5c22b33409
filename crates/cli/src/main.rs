//! The `flotilla` command: reads what was typed and hands it to the command it names.

mod commands;

// Heap profilers see only the allocator of the system.
#[cfg(not(feature = "system-allocator"))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    let called = std::env::args_os().next();
    let program = ::commands::program::name_of(called.as_deref());
    match commands::run(program) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => commands::fail(&error),
    }
}
