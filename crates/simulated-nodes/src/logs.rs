//! Logs of simulated containers: not stored, but generated from when and how the container ran.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use object::{Object, time};
use pod_streams::{LogOptions, LogStream, PodRef, Refusal};
use serde_json::Value;

use crate::shell;
use crate::simulation::{Simulation, until};

/// Maximum number of lines; older ones are dropped, as by log rotation.
const LINES_MAX: usize = 10_000;
/// Poll interval of a followed log.
const FOLLOW_EVERY: Duration = Duration::from_millis(500);

/// One run of a container.
struct Run {
    started: Timestamp,
    ended: Option<(Timestamp, i64)>,
}

struct Line {
    at: Timestamp,
    text: String,
}

pub fn logs(simulation: &Simulation, pod: &PodRef, options: LogOptions) -> Result<LogStream, Refusal> {
    let object = simulation.pod(&pod.namespace, &pod.name, &pod.uid);
    let object = object.ok_or_else(|| Refusal::new(404, format!("pods {:?} not found", pod.name)))?;
    let run = run_of(&object, &pod.container, options.previous)?;
    let since = since(&options, simulation.now())?;
    let mut lines = lines(simulation, &object, &pod.container, &run);
    // Lines skipped now are not shown later either.
    let last = lines.last().map(|line| line.at);
    lines.retain(|line| since.is_none_or(|since| line.at >= since));
    if let Some(tail) = options.tail_lines {
        let first = lines.len().saturating_sub(usize::try_from(tail).unwrap_or(usize::MAX));
        lines.drain(..first);
    }
    let first = shown(&lines, options.timestamps);
    let now = futures::stream::iter((!first.is_empty()).then_some(Ok(first)));
    if !options.follow || run.ended.is_some() {
        return Ok(Box::pin(now));
    }
    let follower = Follower {
        simulation: simulation.clone(),
        pod: pod.clone(),
        started: run.started,
        last: last.unwrap_or(Timestamp::MIN),
        timestamps: options.timestamps,
        is_over: false,
    };
    let later = futures::stream::unfold(follower, |mut follower| async move {
        let piece = follower.next().await?;
        Some((Ok(piece), follower))
    });
    Ok(Box::pin(futures::StreamExt::chain(now, later)))
}

struct Follower {
    simulation: Simulation,
    pod: PodRef,
    started: Timestamp,
    last: Timestamp,
    timestamps: bool,
    is_over: bool,
}

impl Follower {
    /// Returns the lines since the last call; `None` once the container has exited and all were returned.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.is_over {
                return None;
            }
            tokio::time::sleep(FOLLOW_EVERY).await;
            let PodRef { namespace, name, uid, container } = &self.pod;
            let pod = self.simulation.pod(namespace, name, uid)?;
            let mut run = run_of(&pod, container, false).ok()?;
            if run.started != self.started {
                // The container was restarted; the followed run is the previous one.
                run = run_of(&pod, container, true).ok().filter(|run| run.started == self.started)?;
            }
            self.is_over = run.ended.is_some();
            let mut lines = lines(&self.simulation, &pod, container, &run);
            lines.retain(|line| line.at > self.last);
            if let Some(line) = lines.last() {
                self.last = line.at;
                return Some(shown(&lines, self.timestamps));
            }
        }
    }
}

fn since(options: &LogOptions, now: Timestamp) -> Result<Option<Timestamp>, Refusal> {
    if let Some(text) = &options.since_time {
        let at = time::parse(text).ok_or_else(|| Refusal::new(400, format!("{text:?} is not a time")))?;
        return Ok(Some(at));
    }
    Ok(options
        .since_seconds
        .map(|seconds| now.checked_sub(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MIN)))
}

fn shown(lines: &[Line], timestamps: bool) -> Bytes {
    let mut out = String::new();
    for line in lines {
        if timestamps {
            out.push_str(&line.at.strftime("%Y-%m-%dT%H:%M:%S.%9fZ ").to_string());
        }
        out.push_str(&line.text);
        out.push('\n');
    }
    out.into()
}

/// Returns the status of a container of any type.
pub fn status_of<'a>(pod: &'a Object, container: &str) -> Option<&'a Value> {
    let lists = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];
    lists.iter().flat_map(|list| pod.items(&["status", list])).find(|status| status["name"] == container)
}

/// Returns the spec of a container of any type.
pub fn spec_of<'a>(pod: &'a Object, container: &str) -> Option<&'a Value> {
    let lists = ["containers", "initContainers", "ephemeralContainers"];
    lists.iter().flat_map(|list| pod.items(&["spec", list])).find(|spec| spec["name"] == container)
}

/// Returns the current or previous run of the container.
fn run_of(pod: &Object, container: &str, is_previous: bool) -> Result<Run, Refusal> {
    let refused = |text: String| Refusal::new(400, text);
    let title = format!("container {container:?} in pod {:?}", pod.name());
    let status = status_of(pod, container).ok_or_else(|| refused(format!("{title} is not available")))?;
    let ended = |value: &Value| {
        let started = time::parse(value["startedAt"].as_str()?)?;
        let finished = time::parse(value["finishedAt"].as_str()?)?;
        Some(Run { started, ended: Some((finished, value["exitCode"].as_i64().unwrap_or(0))) })
    };
    let last = || ended(&status["lastState"]["terminated"]);
    if is_previous {
        return last().ok_or_else(|| refused(format!("previous terminated {title} not found")));
    }
    let state = &status["state"];
    if let Some(started) = state["running"]["startedAt"].as_str().and_then(time::parse) {
        return Ok(Run { started, ended: None });
    }
    if let Some(run) = ended(&state["terminated"]).or_else(last) {
        return Ok(run);
    }
    let reason = match state["waiting"]["reason"].as_str().unwrap_or("ContainerCreating") {
        "ErrImagePull" => "image can't be pulled",
        "ImagePullBackOff" => "trying and failing to pull image",
        reason => reason,
    };
    Err(refused(format!("{title} is waiting to start: {reason}")))
}

fn lines(simulation: &Simulation, pod: &Arc<Object>, container: &str, run: &Run) -> Vec<Line> {
    let end = run.ended.map_or_else(|| simulation.now(), |(at, _)| at);
    let Some(spec) = spec_of(pod, container) else { return Vec::new() };
    let elapsed = until(run.started, end);
    let mut lines = match shell::output(pod, spec, run.started, elapsed) {
        Some(output) => split(run.started, output),
        None => started_at(simulation, pod, spec, run, elapsed),
    };
    if let Some(sandbox) = simulation.known_sandbox(pod, container) {
        let noted = sandbox.lines.lock();
        let mine = noted.iter().filter(|(at, _)| *at >= run.started && *at <= end);
        lines.extend(mine.map(|(at, text)| Line { at: *at, text: text.clone() }));
        lines.sort_by_key(|line| line.at);
    }
    let first = lines.len().saturating_sub(LINES_MAX);
    lines.drain(..first);
    lines
}

/// Splits output into lines with the time each was completed.
fn split(started: Timestamp, output: Vec<shell::TimedOutput>) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut pending = String::new();
    let mut at = started;
    for shell::TimedOutput { after, bytes } in output {
        at = later(started, after);
        pending.push_str(&String::from_utf8_lossy(&bytes));
        while let Some((line, rest)) = pending.split_once('\n') {
            lines.push(Line { at, text: line.to_owned() });
            pending = rest.to_owned();
        }
    }
    if !pending.is_empty() {
        lines.push(Line { at, text: pending });
    }
    lines
}

/// Returns the generated lines of a container whose program is not simulated.
fn started_at(simulation: &Simulation, pod: &Object, spec: &Value, run: &Run, elapsed: Duration) -> Vec<Line> {
    let (name, image) = (spec["name"].as_str().unwrap_or_default(), spec["image"].as_str().unwrap_or_default());
    let node = pod.str_at(&["spec", "nodeName"]);
    let title = format!("{}/{}", pod.namespace(), pod.name());
    let mut lines = Vec::new();
    let every = simulation.inner.settings.delays.log_every.max(Duration::from_millis(100));
    let ticks = u64::try_from(elapsed.as_millis() / every.as_millis()).unwrap_or(u64::MAX);
    let first = ticks.saturating_sub(LINES_MAX as u64);
    if first == 0 {
        let text = format!("{name}: started {image} in pod {title} on node {node} (simulated)");
        lines.push(Line { at: run.started, text });
    }
    for tick in first.max(1)..=ticks {
        let after = every.saturating_mul(u32::try_from(tick).unwrap_or(u32::MAX));
        let text = format!("{name}: running for {} s", after.as_secs());
        lines.push(Line { at: later(run.started, after), text });
    }
    if let Some((at, code)) = run.ended {
        lines.push(Line { at, text: format!("{name}: exiting with code {code}") });
    }
    lines
}

fn later(at: Timestamp, length: Duration) -> Timestamp {
    let length = SignedDuration::try_from(length).unwrap_or(SignedDuration::MAX);
    at.checked_add(length).unwrap_or(Timestamp::MAX)
}
