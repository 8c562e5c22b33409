//! Talking to what runs in a pod: logs, exec, attach and port-forward, and the protocols clients speak for them.

mod backend;

pub use backend::{
    Attach, Exec, ExitStatus, LogOptions, LogStream, PodBackend, PodRef, Refusal, Streams, TerminalSize, Tunnel,
};
