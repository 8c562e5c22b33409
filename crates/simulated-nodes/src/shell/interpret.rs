//! Runs commands: in real time for a client, or in virtual time to predict the behaviour of a container.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

use crate::shell::ShellEnvironment;
use crate::shell::arithmetic;
use crate::shell::files::{Files, resolve};
use crate::shell::parse::{self, OutputStream, ParseError, Redirect, RedirectTo, ShellCommand, Word, WordPart};
use crate::shell::programs;
use crate::shell::streams::{Closed, InputSource, Io, OutputSink};

/// Maximum nesting of shells and command substitutions.
const DEPTH_MAX: usize = 20;

/// The clock of a shell.
#[derive(Clone, Copy, Debug)]
pub enum ShellClock {
    Real,
    /// Sleeping takes no real time but is counted; with a limit on time and number of commands.
    Predicted {
        start: Timestamp,
        elapsed: Duration,
        horizon: Duration,
        commands_left: usize,
    },
}

/// The control flow after a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    Next,
    Exit(i32),
    Break,
    Continue,
    /// The prediction has reached its limit, or the reader is gone.
    OutOfTime,
}

pub struct Shell {
    pub environment: Arc<ShellEnvironment>,
    pub files: Arc<Mutex<Files>>,
    pub vars: BTreeMap<String, String>,
    pub dir: String,
    pub arguments: Vec<String>,
    /// The exit status of the last command.
    pub status: i32,
    /// A program that is not simulated was called.
    pub is_foreign: bool,
    stops_on_error: bool,
    clock: ShellClock,
    depth: usize,
}

impl Shell {
    pub fn new(environment: Arc<ShellEnvironment>, files: Arc<Mutex<Files>>, clock: ShellClock) -> Self {
        let vars = environment.env.clone();
        let dir = resolve("/", &environment.working_dir);
        Self {
            environment,
            files,
            vars,
            dir,
            arguments: Vec::new(),
            status: 0,
            is_foreign: false,
            stops_on_error: false,
            clock,
            depth: 0,
        }
    }

    /// Virtual time that has passed.
    pub fn elapsed(&self) -> Duration {
        match self.clock {
            ShellClock::Real => Duration::ZERO,
            ShellClock::Predicted { elapsed, .. } => elapsed,
        }
    }

    pub fn now(&self) -> Timestamp {
        match self.clock {
            ShellClock::Real => Timestamp::now(),
            ShellClock::Predicted { start, elapsed, .. } => {
                let elapsed = SignedDuration::try_from(elapsed).unwrap_or(SignedDuration::MAX);
                start.checked_add(elapsed).unwrap_or(Timestamp::MAX)
            }
        }
    }

    pub fn stop_on_error(&mut self, stops: bool) {
        self.stops_on_error = stops;
    }

    pub fn is_prediction(&self) -> bool {
        matches!(self.clock, ShellClock::Predicted { .. })
    }

    pub async fn sleep(&mut self, length: Duration) -> Flow {
        match &mut self.clock {
            ShellClock::Real => {
                tokio::time::sleep(length).await;
                Flow::Next
            }
            ShellClock::Predicted { elapsed, horizon, .. } => {
                *elapsed = elapsed.saturating_add(length);
                if *elapsed >= *horizon { Flow::OutOfTime } else { Flow::Next }
            }
        }
    }

    /// Counts a command; returns false beyond the limit.
    fn count(&mut self) -> bool {
        match &mut self.clock {
            ShellClock::Real => true,
            ShellClock::Predicted { commands_left, .. } => {
                let is_left = *commands_left > 0;
                *commands_left = commands_left.saturating_sub(1);
                is_left
            }
        }
    }

    /// Writes output of a program; a closed reader ends the script.
    pub async fn write(&self, to: &OutputSink, bytes: &[u8]) -> Flow {
        match to.write(bytes, self.elapsed()).await {
            Ok(()) => Flow::Next,
            Err(Closed) => Flow::OutOfTime,
        }
    }

    pub async fn complain(&mut self, io: &Io, text: String, status: i32) -> Flow {
        self.status = status;
        self.write(&io.stderr, format!("{text}\n").as_bytes()).await
    }

    /// Runs one command with arguments, as given to `exec`.
    pub fn run_command<'a>(&'a mut self, command: &'a [String], io: &'a Io) -> BoxFuture<'a, Flow> {
        programs::run(self, command, io)
    }

    /// Runs a script, as given to `sh -c`.
    pub async fn run_script(&mut self, script: &str, io: &Io) -> Flow {
        match parse::parse(script) {
            Ok(node) => self.run(&node, io).await,
            Err(error) => {
                let text = match error {
                    ParseError::Incomplete => "sh: syntax error: unexpected end of file".to_owned(),
                    ParseError::Unexpected(what) => format!("sh: syntax error or not simulated: {what}"),
                };
                self.is_foreign = true;
                let flow = self.complain(io, text, 2).await;
                if flow == Flow::Next { Flow::Exit(2) } else { flow }
            }
        }
    }

    pub fn run<'a>(&'a mut self, node: &'a ShellCommand, io: &'a Io) -> BoxFuture<'a, Flow> {
        async move {
            if self.depth >= DEPTH_MAX {
                return Flow::Exit(2);
            }
            self.depth += 1;
            let flow = self.run_node(node, io).await;
            self.depth -= 1;
            flow
        }
        .boxed()
    }

    async fn run_node(&mut self, node: &ShellCommand, io: &Io) -> Flow {
        match node {
            ShellCommand::Simple { assignments, words, redirects } => {
                self.simple(assignments, words, redirects, io).await
            }
            ShellCommand::Sequence(nodes) => {
                for node in nodes {
                    let flow = self.run(node, io).await;
                    if flow != Flow::Next {
                        return flow;
                    }
                    if self.stops_on_error
                        && self.status != 0
                        && matches!(node, ShellCommand::Simple { .. } | ShellCommand::Pipe(_))
                    {
                        return Flow::Exit(self.status);
                    }
                }
                Flow::Next
            }
            ShellCommand::Pipe(nodes) => self.pipe(nodes, io).await,
            ShellCommand::Not(inner) => {
                let flow = self.run(inner, io).await;
                self.status = i32::from(self.status == 0);
                flow
            }
            ShellCommand::And(left, right) => self.either(left, right, io, |status| status == 0).await,
            ShellCommand::Or(left, right) => self.either(left, right, io, |status| status != 0).await,
            ShellCommand::If { arms, otherwise } => {
                for (condition, then) in arms {
                    let flow = self.run(condition, io).await;
                    if flow != Flow::Next {
                        return flow;
                    }
                    if self.status == 0 {
                        return self.run(then, io).await;
                    }
                }
                self.status = 0;
                match otherwise {
                    Some(node) => self.run(node, io).await,
                    None => Flow::Next,
                }
            }
            ShellCommand::While { condition, is_until, body } => self.repeat(condition, *is_until, body, io).await,
            ShellCommand::For { name, words, body } => self.for_each(name, words, body, io).await,
            ShellCommand::Group(inner, redirects) => match self.redirected(redirects, io).await {
                Ok(io) => self.run(inner, &io).await,
                Err(flow) => flow,
            },
            ShellCommand::Subshell(inner) => {
                let (vars, dir) = (self.vars.clone(), self.dir.clone());
                let flow = self.run(inner, io).await;
                (self.vars, self.dir) = (vars, dir);
                if let Flow::Exit(code) = flow {
                    self.status = code;
                    return Flow::Next;
                }
                flow
            }
        }
    }

    async fn either(&mut self, left: &ShellCommand, right: &ShellCommand, io: &Io, goes_on: fn(i32) -> bool) -> Flow {
        let flow = self.run(left, io).await;
        if flow == Flow::Next && goes_on(self.status) { self.run(right, io).await } else { flow }
    }

    async fn repeat(&mut self, condition: &ShellCommand, is_until: bool, body: &ShellCommand, io: &Io) -> Flow {
        loop {
            if !self.count() {
                return Flow::OutOfTime;
            }
            // A loop that never waits must yield to other tasks.
            if !self.is_prediction() {
                tokio::task::yield_now().await;
            }
            let flow = self.run(condition, io).await;
            if flow != Flow::Next {
                return flow;
            }
            if (self.status == 0) == is_until {
                self.status = 0;
                return Flow::Next;
            }
            match self.run(body, io).await {
                Flow::Next | Flow::Continue => {}
                Flow::Break => return Flow::Next,
                flow => return flow,
            }
        }
    }

    async fn for_each(&mut self, name: &str, words: &[Word], body: &ShellCommand, io: &Io) -> Flow {
        let mut values = Vec::new();
        for word in words {
            values.extend(self.expand(word, io).await);
        }
        for value in values {
            if !self.count() {
                return Flow::OutOfTime;
            }
            self.vars.insert(name.to_owned(), value);
            match self.run(body, io).await {
                Flow::Next | Flow::Continue => {}
                Flow::Break => return Flow::Next,
                flow => return flow,
            }
        }
        Flow::Next
    }

    /// Runs the commands one after the other; the output of each is the input of the next.
    async fn pipe(&mut self, nodes: &[ShellCommand], io: &Io) -> Flow {
        let mut stdin = io.stdin.clone();
        for (index, node) in nodes.iter().enumerate() {
            let is_last = index + 1 == nodes.len();
            let pipe = Arc::new(Mutex::new(Vec::new()));
            let stdout = if is_last { io.stdout.clone() } else { OutputSink::Pipe(Arc::clone(&pipe)) };
            let part = Io { stdin, stdout, stderr: io.stderr.clone() };
            let flow = self.run(node, &part).await;
            match flow {
                Flow::Exit(code) => self.status = code,
                Flow::Next => {}
                // A full pipe ends its writer, not the whole pipeline.
                Flow::OutOfTime if !is_last && !self.is_prediction() => {}
                flow => return flow,
            }
            stdin = InputSource::of(std::mem::take(&mut *pipe.lock()));
        }
        Flow::Next
    }

    async fn simple(
        &mut self,
        assignments: &[(String, Word)],
        words: &[Word],
        redirects: &[Redirect],
        io: &Io,
    ) -> Flow {
        if !self.count() {
            return Flow::OutOfTime;
        }
        let mut command = Vec::new();
        for word in words {
            command.extend(self.expand(word, io).await);
        }
        let mut restore = Vec::new();
        for (name, value) in assignments {
            let value = self.expand_whole(value, io).await;
            let before = self.vars.insert(name.clone(), value);
            if !command.is_empty() {
                restore.push((name.clone(), before));
            }
        }
        let io = match self.redirected(redirects, io).await {
            Ok(io) => io,
            Err(flow) => return flow,
        };
        if command.is_empty() {
            self.status = 0;
            return Flow::Next;
        }
        let flow = programs::run(self, &command, &io).await;
        for (name, before) in restore {
            match before {
                Some(value) => drop(self.vars.insert(name, value)),
                None => drop(self.vars.remove(&name)),
            }
        }
        flow
    }

    async fn redirected(&mut self, redirects: &[Redirect], io: &Io) -> Result<Io, Flow> {
        let mut io = io.clone();
        for redirect in redirects {
            if redirect.from == OutputStream::Stdin {
                let RedirectTo::File(word) = &redirect.to else { continue };
                let path = self.path(word, &io).await;
                let read = self.files.lock().read(&path);
                match read {
                    Ok(bytes) => io.stdin = InputSource::of(bytes),
                    Err(error) => return Err(self.complain(&io, format!("sh: can't open {path}: {error}"), 1).await),
                }
                continue;
            }
            let sink = match &redirect.to {
                RedirectTo::Same(OutputStream::Stderr) => io.stderr.clone(),
                RedirectTo::Same(_) => io.stdout.clone(),
                RedirectTo::File(word) | RedirectTo::Append(word) => {
                    let path = self.path(word, &io).await;
                    let is_append = matches!(redirect.to, RedirectTo::Append(_));
                    match self.open(&path, is_append, &io) {
                        Ok(sink) => sink,
                        Err(text) => return Err(self.complain(&io, text, 1).await),
                    }
                }
            };
            match redirect.from {
                OutputStream::Stderr => io.stderr = sink,
                _ => io.stdout = sink,
            }
        }
        Ok(io)
    }

    fn open(&self, path: &str, is_append: bool, io: &Io) -> Result<OutputSink, String> {
        match path {
            "/dev/null" => return Ok(OutputSink::Null),
            "/dev/stdout" | "/proc/1/fd/1" => return Ok(io.stdout.clone()),
            "/dev/stderr" | "/proc/1/fd/2" => return Ok(io.stderr.clone()),
            _ => {}
        }
        let mut files = self.files.lock();
        let opened = match is_append {
            true => files.append(path, b""),
            false => files.write(path, bytes::Bytes::new(), 0o644),
        };
        match opened {
            Ok(()) => Ok(OutputSink::File { files: Arc::clone(&self.files), path: path.to_owned() }),
            Err(error) => Err(format!("sh: can't create {path}: {error}")),
        }
    }

    async fn path(&mut self, word: &Word, io: &Io) -> String {
        let name = self.expand_whole(word, io).await;
        resolve(&self.dir, &name)
    }

    /// Expands a word; unquoted expansions are split at spaces.
    async fn expand(&mut self, word: &Word, io: &Io) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        let mut current: Option<String> = None;
        for part in word {
            let (text, is_whole) = self.expand_part(part, io).await;
            if is_whole {
                current.get_or_insert_default().push_str(&text);
                continue;
            }
            if text.starts_with(char::is_whitespace) {
                words.extend(current.take());
            }
            for (index, piece) in text.split_whitespace().enumerate() {
                if index > 0 {
                    words.extend(current.take());
                }
                current.get_or_insert_default().push_str(piece);
            }
            if text.ends_with(char::is_whitespace) {
                words.extend(current.take());
            }
        }
        words.extend(current);
        words
    }

    async fn expand_whole(&mut self, word: &Word, io: &Io) -> String {
        let mut out = String::new();
        for part in word {
            out.push_str(&self.expand_part(part, io).await.0);
        }
        out
    }

    /// Returns the text of a part, and whether it is not split.
    async fn expand_part(&mut self, part: &WordPart, io: &Io) -> (String, bool) {
        match part {
            WordPart::Quoted(text) => (text.clone(), true),
            WordPart::Bare(text) => (self.tilde(text), true),
            WordPart::Variable { name, default, is_quoted } => {
                let value = self.variable(name).filter(|value| !value.is_empty());
                (value.or_else(|| default.clone()).unwrap_or_default(), *is_quoted)
            }
            WordPart::Arithmetic(text) => {
                let value = arithmetic::evaluate(text, &|name| self.variable(name));
                (value.map(|value| value.to_string()).unwrap_or_default(), true)
            }
            WordPart::Command { node, is_quoted } => {
                let pipe = Arc::new(Mutex::new(Vec::new()));
                let inner = Io {
                    stdin: io.stdin.clone(),
                    stdout: OutputSink::Pipe(Arc::clone(&pipe)),
                    stderr: io.stderr.clone(),
                };
                if let Flow::Exit(code) = self.run(node, &inner).await {
                    self.status = code;
                }
                let bytes = std::mem::take(&mut *pipe.lock());
                (String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_owned(), *is_quoted)
            }
        }
    }

    fn tilde(&self, text: &str) -> String {
        let home = self.vars.get("HOME").map_or("/root", String::as_str);
        match text {
            "~" => home.to_owned(),
            text if text.starts_with("~/") => format!("{home}{}", &text[1..]),
            text => text.to_owned(),
        }
    }

    pub fn variable(&self, name: &str) -> Option<String> {
        match name {
            "?" => Some(self.status.to_string()),
            "$" => Some("7".to_owned()),
            "#" => Some(self.arguments.len().saturating_sub(1).to_string()),
            "@" | "*" => Some(self.arguments.get(1..).unwrap_or_default().join(" ")),
            "PWD" => Some(self.dir.clone()),
            name => match name.parse::<usize>() {
                Ok(index) => self.arguments.get(index).cloned(),
                Err(_) => self.vars.get(name).cloned(),
            },
        }
    }
}
