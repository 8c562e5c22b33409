//! Streams of a pod: logs, exec, attach and port-forward, and their protocols.

mod backend;
pub mod client;
mod exit;
mod logs;
mod pipe;
mod port_forward;
mod query;
mod remote_command;
pub mod spdy;
mod upgrade;
pub mod websocket;

pub use backend::{
    Attach, Exec, ExitStatus, LogOptions, LogStream, PodBackend, PodRef, Refusal, Streams, TerminalSize, Tunnel,
};
pub use logs::serve_logs;
pub use port_forward::serve_port_forward;
pub use remote_command::{serve_attach, serve_exec};
pub use upgrade::StreamRequest;
