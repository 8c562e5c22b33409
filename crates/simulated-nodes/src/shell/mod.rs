//! A small shell over in-memory files, which runs the commands of simulated containers.

mod arithmetic;
mod files;
mod interpret;
mod parse;
mod programs;
mod streams;
mod tar;
mod terminal;
mod text_programs;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use jiff::Timestamp;
use object::Object;
use parking_lot::Mutex;
use serde_json::Value;

use crate::shell::interpret::{Flow, Shell, ShellClock};
use crate::shell::streams::{InputSource, Io, OutputSink};

pub use files::Files;
pub use streams::TimedOutput;
pub use terminal::{Ended, run_session};

/// Maximum number of commands when predicting the end of a script.
const PREDICTED_COMMANDS_MAX: usize = 2_000;
/// The same for its log, which may be long.
const LOGGED_COMMANDS_MAX: usize = 100_000;

/// The environment of a container's commands.
#[derive(Clone, Debug, Default)]
pub struct ShellEnvironment {
    pub hostname: String,
    pub env: BTreeMap<String, String>,
    pub working_dir: String,
    /// The name of the container's main process.
    pub process: String,
}

/// Returns the command of a container, if its spec has one.
pub fn command_of(container: &Value) -> Vec<String> {
    let list = |name: &str| container[name].as_array().map(Vec::as_slice).unwrap_or_default();
    let words = list("command").iter().chain(list("args"));
    words.filter_map(|word| word.as_str().map(str::to_owned)).collect()
}

/// Returns the environment of a container, as far as its pod determines it.
pub fn environment_of(pod: &Object, container: &Value) -> ShellEnvironment {
    let mut env = BTreeMap::from([
        ("PATH".to_owned(), "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned()),
        ("HOSTNAME".to_owned(), pod.name().to_owned()),
        ("HOME".to_owned(), "/root".to_owned()),
    ]);
    for variable in container["env"].as_array().map(Vec::as_slice).unwrap_or_default() {
        let Some(name) = variable["name"].as_str() else { continue };
        let value = match variable["valueFrom"]["fieldRef"]["fieldPath"].as_str() {
            Some(path) => Some(field_of(pod, path)),
            None => variable["value"].as_str().map(str::to_owned),
        };
        if let Some(value) = value {
            let value = expand_references(&value, &env);
            env.insert(name.to_owned(), value);
        }
    }
    let process = command_of(container).join(" ");
    let process = if process.is_empty() { container["image"].as_str().unwrap_or_default().to_owned() } else { process };
    ShellEnvironment {
        hostname: pod.name().to_owned(),
        env,
        working_dir: container["workingDir"].as_str().unwrap_or("/").to_owned(),
        process,
    }
}

fn field_of(pod: &Object, path: &str) -> String {
    if let Some((kind, key)) = path.split_once('[') {
        let key = key.trim_end_matches(']').trim_matches('\'').trim_matches('"');
        let found = if kind == "metadata.labels" { pod.label(key) } else { pod.annotation(key) };
        return found.unwrap_or_default().to_owned();
    }
    pod.str_at(&path.split('.').collect::<Vec<_>>()).to_owned()
}

/// Expands `$(NAME)` for variables set before.
fn expand_references(text: &str, env: &BTreeMap<String, String>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("$(") {
        out.push_str(before);
        match after.split_once(')') {
            Some((name, tail)) if env.contains_key(name) => {
                out.push_str(&env[name]);
                rest = tail;
            }
            _ => {
                out.push_str("$(");
                rest = after;
            }
        }
    }
    out + rest
}

/// Predicts when and how the container's command exits: `None` if it runs a program that is not simulated,
/// `Some(None)` if it never exits.
pub fn predict_end(pod: &Object, container: &Value) -> Option<Option<(Duration, i32)>> {
    let command = command_of(container);
    if command.is_empty() {
        return None;
    }
    let length = PredictionLimits {
        start: Timestamp::UNIX_EPOCH,
        horizon: crate::duration::FOREVER,
        commands: PREDICTED_COMMANDS_MAX,
    };
    let (_, end) = simulate_run(pod, container, &command, length)?;
    Some(end)
}

/// Returns the output of the container's command in the time after its start.
pub fn output(pod: &Object, container: &Value, start: Timestamp, elapsed: Duration) -> Option<Vec<TimedOutput>> {
    let command = command_of(container);
    if command.is_empty() {
        return None;
    }
    let length = PredictionLimits { start, horizon: elapsed, commands: LOGGED_COMMANDS_MAX };
    Some(simulate_run(pod, container, &command, length)?.0)
}

/// The limits of a prediction.
struct PredictionLimits {
    start: Timestamp,
    horizon: Duration,
    commands: usize,
}

type PredictedRun = (Vec<TimedOutput>, Option<(Duration, i32)>);

/// Runs the command in virtual time, which advances only when it sleeps.
fn simulate_run(pod: &Object, container: &Value, command: &[String], length: PredictionLimits) -> Option<PredictedRun> {
    let environment = Arc::new(environment_of(pod, container));
    let files = Arc::new(Mutex::new(Files::new(&environment)));
    let written = Arc::default();
    let PredictionLimits { start, horizon, commands } = length;
    let clock = ShellClock::Predicted { start, elapsed: Duration::ZERO, horizon, commands_left: commands };
    let mut shell = Shell::new(environment, files, clock);
    let sink = OutputSink::Timed(Arc::clone(&written));
    let io = Io { stdin: InputSource::Empty, stdout: sink.clone(), stderr: sink };
    // Nothing waits in virtual time, so the future completes at the first poll.
    let flow = shell.run_command(command, &io).now_or_never()?;
    if shell.is_foreign {
        return None;
    }
    let end = match flow {
        Flow::OutOfTime => None,
        Flow::Exit(code) => Some((shell.elapsed(), code)),
        Flow::Next | Flow::Break | Flow::Continue => Some((shell.elapsed(), shell.status)),
    };
    let written = std::mem::take(&mut *written.lock());
    Some((written, end))
}

#[cfg(test)]
mod tests;
