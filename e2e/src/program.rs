//! A real program of Karmada on the arguments of a test, stopped with it.

use std::fs::File;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::flotilla::programs;

pub struct Program {
    name: &'static str,
    child: Child,
    log: PathBuf,
    /// Keeps the log directory alive.
    _directory: tempfile::TempDir,
}

impl Program {
    pub fn start(name: &'static str, arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let log = directory.path().join("program.log");
        let file = File::create(&log).expect("a log file");
        let mut command = Command::new(programs().join(name));
        command.args(arguments).stdin(Stdio::null());
        let child = command.stdout(file.try_clone().expect("a second handle")).stderr(file).spawn();
        Self { name, child: child.expect("the program starts"), log, _directory: directory }
    }

    /// Reports whether all programs are installed; skips the test if not.
    pub fn are_installed(names: &[&str]) -> bool {
        let missing = names.iter().find(|name| !programs().join(name).exists());
        if let Some(missing) = missing {
            test_skip::skip(format_args!("{missing} is not in {}; `make test` builds it", programs().display()));
        }
        missing.is_none()
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            eprintln!("the log of {}:\n{}", self.name, lines[lines.len().saturating_sub(40)..].join("\n"));
        }
        // It may have exited by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port that is free now, for programs that cannot choose one.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").port()
}
