//! The `flotilla` command: parses the command line and runs the command.

mod agent;
mod audit;
mod autoscaling;
mod background;
mod backup;
mod completion;
mod curl;
mod dispatch;
mod doctor;
mod encryption;
mod estimator_flags;
mod etcd;
mod host;
mod identity;
mod image;
mod instance;
mod karmada_flags;
mod kubeconfig_secret;
mod limits;
mod man;
mod manager;
mod member;
mod name_resolution;
mod pod;
mod prepare;
mod propagation;
mod registry;
mod server;
mod termination;
mod testbed;
mod tls_flags;
mod webhook_flags;

// Heap profilers see only the allocator of the system.
#[cfg(not(feature = "system-allocator"))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    let called = std::env::args_os().next();
    if curl::is_name(called.as_deref()) {
        return curl::run();
    }
    let program = ::karmadactl::program::name_of(called.as_deref());
    match dispatch::run(program) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => dispatch::fail(&error),
    }
}
