//! A long run: clients, user actions and faults on a seeded schedule, then convergence, then the result.

pub mod actions;
pub mod api;
pub mod clients;
pub mod observe;
pub mod random;
pub mod run_log;
pub mod schedule;
pub mod system;
pub mod users;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::faults::{Fault, FaultTarget};
use crate::history::applied::{FinalState, check_final_state, check_steps};
use crate::history::writes::{self, Counts, Violation};
use crate::history::{HistoryEntry, HistoryLog};
use api::{Api, ApiAnswer};
use clients::Session;
use observe::Steps;
use random::SeededRandom;
use run_log::{RunLog, SharedRunLog, with};
use schedule::{Action, Engine, ScheduledStep, SoakPlan};
use system::SoakSystem;
use users::{RequestedState, Users};

const SESSIONS: u64 = 4;
/// Everything must have converged within this time after the last fault was healed.
const REST_TIMEOUT: Duration = Duration::from_secs(240);
/// The converged state must be stable for this long.
const REST_LASTS: Duration = Duration::from_secs(4);
/// A program may exit this much later because of a broken disk.
const DISK_SHADOW: Duration = Duration::from_secs(30);
/// Starting, joining the members, the last lists and checks may take this long together.
const OTHER_STAGES: Duration = Duration::from_secs(900);
/// Programs are killed within this time when a run is given up.
const KILL_TIMEOUT: Duration = Duration::from_secs(30);
/// Consecutive liveness failures before a restart.
const DEAD_MAX: u32 = 4;

/// The result of a run.
#[derive(Debug, Default)]
pub struct SoakResult {
    pub violations: Vec<Violation>,
    pub counts: Counts,
    /// Unsupported faults.
    pub refused: Vec<String>,
    /// Observations that are not violations.
    pub notes: Vec<String>,
    pub faults: usize,
    pub actions: usize,
    /// User actions that were too late to be done.
    pub skipped: usize,
    /// Time to converge after the last fault.
    pub rest: Duration,
}

/// Runs a schedule in a directory, which keeps all logs. Ctrl-C and the deadline of the run stop all started programs.
pub async fn run(plan: &SoakPlan, steps: &[ScheduledStep], directory: &Path) -> Result<SoakResult, String> {
    schedule::write(&directory.join("schedule.jsonl"), plan, steps).map_err(|error| error.to_string())?;
    let system = Arc::new(SoakSystem::start(plan, directory).await?);
    let run_log: SharedRunLog = Arc::default();
    let limit = time_limit(plan);
    tokio::select! {
        result = run_in(Arc::clone(&system), plan, steps, directory, &run_log) => return result,
        () = tokio::time::sleep(limit) => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    // Tasks may still hold references, so programs are not stopped by dropping. A fault that hangs holds its program.
    let kill_all = move || system.targets.values().for_each(|target| target.subject().kill());
    let is_killed = tokio::time::timeout(KILL_TIMEOUT, tokio::task::spawn_blocking(kill_all)).await.is_ok();
    let left = if is_killed { "" } else { "; some programs still run" };
    Err(format!("it was stopped (limit {limit:?}): {}{left}", with(&run_log, |run_log| run_log.describe())))
}

/// A run that takes longer hangs.
fn time_limit(plan: &SoakPlan) -> Duration {
    Duration::from_secs(plan.seconds) + actions::OVERTIME + REST_TIMEOUT + OTHER_STAGES
}

async fn run_in(
    system: Arc<SoakSystem>,
    plan: &SoakPlan,
    steps: &[ScheduledStep],
    directory: &Path,
    run_log: &SharedRunLog,
) -> Result<SoakResult, String> {
    let length = Duration::from_secs(plan.seconds);
    with(run_log, |run_log| run_log.refused.extend(system.refused.iter().map(ToString::to_string)));
    let log = Arc::new(HistoryLog::create(&directory.join("history.jsonl")).map_err(|error| error.to_string())?);
    let seen = Arc::new(Steps::create(&directory.join("steps.jsonl")).map_err(|error| error.to_string())?);
    let cancel = CancellationToken::new();
    let mut users = Users::new(Arc::clone(&system));
    let requested = Arc::clone(&users.requested);
    let enter = |stage| with(run_log, |run_log| run_log.stage = stage);
    let _ends_progress = cancel.clone().drop_guard();
    tokio::spawn(run_log::print_progress(Arc::clone(run_log), length, cancel.clone()));
    enter("joining members");
    let observers = if plan.has_members { observe::begin(&system, &seen, &cancel) } else { Vec::new() };
    if plan.has_members {
        users.settle_in().await?;
    }
    let (sessions, watchers, stop_sessions) = begin_clients(plan, &system, &log, &cancel).await?;
    let supervisor =
        tokio::spawn(supervise(Arc::clone(&system), livez(plan.engine), Arc::clone(run_log), cancel.clone()));
    enter("injecting faults");
    let start = Instant::now();
    let actions = tokio::spawn({
        let (steps, run_log) = (steps.to_vec(), Arc::clone(run_log));
        async move { actions::run(users, &steps, start.into(), length, &run_log).await }
    });
    do_faults(&system, steps, start, length, run_log).await;
    enter("finishing user actions");
    actions.await.map_err(|error| error.to_string())?;
    enter("stopping clients");
    stop_sessions.cancel();
    join(sessions).await;
    enter("converging");
    let healed = Instant::now();
    let rest = come_to_rest(plan, &system, &requested, run_log).await;
    let rest_took = healed.elapsed();
    enter("reading the final state");
    last_list(&system, &log).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    cancel.cancel();
    join(watchers).await;
    join(observers).await;
    join(vec![supervisor]).await;
    Ok(judge(&log.entries(), &seen, &rest, run_log, rest_took))
}

async fn join(tasks: Vec<JoinHandle<()>>) {
    for task in tasks {
        // A panicked task has printed its message already.
        let _ = task.await;
    }
}

fn judge(
    entries: &[HistoryEntry],
    seen: &Steps,
    rest: &FinalState,
    run_log: &SharedRunLog,
    rest_took: Duration,
) -> SoakResult {
    let RunLog { mut violations, refused, mut notes, faults, actions, skipped, .. } = with(run_log, std::mem::take);
    violations.extend(writes::check(entries));
    let steps = seen.all();
    notes.push(format!("{} steps of bindings, works and members were seen", steps.len()));
    violations.extend(check_steps(&steps, rest));
    SoakResult { violations, counts: writes::count(entries), refused, notes, faults, actions, skipped, rest: rest_took }
}

type Clients = (Vec<JoinHandle<()>>, Vec<JoinHandle<()>>, CancellationToken);

async fn begin_clients(
    plan: &SoakPlan,
    system: &SoakSystem,
    log: &Arc<HistoryLog>,
    cancel: &CancellationToken,
) -> Result<Clients, String> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": clients::NAMESPACE}});
    let answer = system.replicas[0].create("/api/v1/namespaces", &namespace).await;
    let ApiAnswer::Done(made) = answer else { return Err(format!("no namespace for clients: {answer:?}")) };
    let from = api::revision(&made);
    let stop = CancellationToken::new();
    let session = |number: u64| Session {
        name: format!("s{number}"),
        replicas: system.replicas.clone(),
        log: Arc::clone(log),
        random: SeededRandom::new(plan.seed, 100 + number),
        written: 0,
    };
    let sessions = (0..SESSIONS).map(|number| tokio::spawn(session(number).run(stop.clone())));
    // One watcher per replica, and one that moves between them.
    let mut places: Vec<Vec<Api>> = system.replicas.iter().map(|api| vec![api.clone()]).collect();
    places.push(system.replicas.clone());
    let watch = |(number, place)| {
        tokio::spawn(clients::watch(format!("w{number}"), place, Arc::clone(log), from, cancel.clone()))
    };
    let watchers = places.into_iter().enumerate().map(watch).collect();
    Ok((sessions.collect(), watchers, stop))
}

/// Faults run independently; all are healed when this returns.
async fn do_faults(
    system: &SoakSystem,
    steps: &[ScheduledStep],
    start: Instant,
    length: Duration,
    run_log: &SharedRunLog,
) {
    let mut running = Vec::new();
    for ScheduledStep { at_ms, action } in steps {
        let Action::Fault { target, fault, for_ms } = action else { continue };
        tokio::time::sleep_until((start + Duration::from_millis(*at_ms)).into()).await;
        let Some(target) = system.targets.get(target).cloned() else {
            with(run_log, |run_log| run_log.refused.push(format!("target {target} does not exist in this run")));
            continue;
        };
        running.push(tokio::spawn(do_fault(target, *fault, Duration::from_millis(*for_ms), Arc::clone(run_log))));
    }
    tokio::time::sleep_until((start + length).into()).await;
    join(running).await;
}

async fn do_fault(target: FaultTarget, fault: Fault, lasts: Duration, run_log: SharedRunLog) {
    let is_of_disk = matches!(fault, Fault::FullDisk | Fault::BrokenDisk);
    let name = target.name.clone();
    let injected = tokio::task::spawn_blocking(move || target.inject(fault)).await;
    let injected = match injected {
        Ok(Ok(injected)) => injected,
        Ok(Err(why)) => return with(&run_log, |run_log| run_log.refused.push(why.to_string())),
        Err(panic) => return with(&run_log, |run_log| run_log.notes.push(format!("{fault:?} of {name}: {panic}"))),
    };
    eprintln!("  {name}: {fault:?} for {lasts:?}");
    let what = format!("{fault:?} of {name}");
    with(&run_log, |run_log| {
        run_log.faults += 1;
        run_log.active_faults.push(what.clone());
        if is_of_disk {
            run_log.excuses.push((name.clone(), Instant::now() + lasts + DISK_SHADOW));
        }
    });
    tokio::time::sleep(lasts).await;
    let healed = tokio::task::spawn_blocking(move || injected.heal()).await;
    with(&run_log, |run_log| {
        if let Some(index) = run_log.active_faults.iter().position(|active| *active == what) {
            run_log.active_faults.remove(index);
        }
        if let Err(panic) = healed {
            run_log.notes.push(format!("healing {what}: {panic}"));
        }
    });
}

/// A replica that is cut off from etcd reports that, as kube-apiserver does, and a restart does not repair it. A plane whose
/// own store fails has to be restarted.
fn livez(engine: Engine) -> &'static str {
    match engine {
        Engine::Embedded => "/livez",
        Engine::Etcd => "/livez?exclude=etcd",
    }
}

/// Restarts programs that exited or fail their liveness check, as systemd and a kubelet would; only allowed after a
/// disk failure.
async fn supervise(system: Arc<SoakSystem>, livez: &str, run_log: SharedRunLog, cancel: CancellationToken) {
    let mut dead = vec![0; system.replicas.len()];
    while !cancel.is_cancelled() {
        for target in system.targets.values() {
            let how = target.subject().revive();
            if let Some(how) = how {
                restarted(&target.name, &format!("exited by itself: {how}"), &run_log);
            }
        }
        for (number, api) in system.replicas.iter().enumerate() {
            match api.get(livez).await {
                ApiAnswer::Unknown(why) if why.starts_with("500") => dead[number] += 1,
                _ => dead[number] = 0,
            }
            let name = format!("plane-{number}");
            if dead[number] == DEAD_MAX
                && let Some(target) = system.targets.get(&name)
            {
                dead[number] = 0;
                target.subject().kill();
                target.subject().start();
                restarted(&name, "failed its liveness check and was restarted", &run_log);
            }
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

fn restarted(name: &str, how: &str, run_log: &SharedRunLog) {
    let what = format!("{name} {how}");
    eprintln!("  {what}");
    with(run_log, |run_log| {
        let now = Instant::now();
        // A replica that starts while etcd is unavailable exits with this error and is restarted.
        let is_forgiven = how.contains("the store does not answer")
            || run_log.excuses.iter().any(|(excused, until)| *excused == name && now < *until);
        match is_forgiven {
            true => run_log.notes.push(what),
            false => run_log.violations.push(Violation { rule: "stays up", what }),
        }
    });
}

/// Waits until the members match the decisions and stay so; remaining differences are violations.
async fn come_to_rest(
    plan: &SoakPlan,
    system: &SoakSystem,
    requested: &Arc<Mutex<RequestedState>>,
    run_log: &SharedRunLog,
) -> FinalState {
    let start = Instant::now();
    let mut rest_since: Option<Instant> = None;
    loop {
        let requested = requested.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (rest, missing) =
            if plan.has_members { check_state(system, &requested).await } else { (FinalState::default(), Vec::new()) };
        let missing: Vec<Violation> = missing.into_iter().chain(replicas_not_ready(system).await).collect();
        if missing.is_empty() {
            let since = *rest_since.get_or_insert_with(Instant::now);
            if since.elapsed() >= REST_LASTS {
                return rest;
            }
        } else {
            rest_since = None;
            if start.elapsed() > REST_TIMEOUT {
                with(run_log, |run_log| run_log.violations.extend(missing));
                return rest;
            }
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

async fn check_state(system: &SoakSystem, requested: &RequestedState) -> (FinalState, Vec<Violation>) {
    let not_yet = |what: String| vec![Violation { rule: "converges", what }];
    match observe::ready_members(system).await {
        Err(why) => return (FinalState::default(), not_yet(why)),
        Ok(ready) if ready != requested.joined => {
            return (FinalState::default(), not_yet(format!("ready are {ready:?}, joined {:?}", requested.joined)));
        }
        Ok(_) => {}
    }
    match observe::take_stock(system, requested).await {
        Err(why) => (FinalState::default(), not_yet(why)),
        Ok(rest) => {
            let missing = check_final_state(&rest);
            (rest, missing)
        }
    }
}

async fn replicas_not_ready(system: &SoakSystem) -> Vec<Violation> {
    let mut found = Vec::new();
    for (number, api) in system.replicas.iter().enumerate() {
        match api.get("/readyz").await {
            ApiAnswer::Done(_) => {}
            other => found.push(Violation { rule: "converges", what: format!("plane-{number}: {other:?}") }),
        }
    }
    found
}

/// Lists the final state on every replica.
async fn last_list(system: &SoakSystem, log: &Arc<HistoryLog>) -> Result<(), String> {
    let mut session = Session {
        name: "last".to_owned(),
        replicas: system.replicas.clone(),
        log: Arc::clone(log),
        random: SeededRandom::new(0, 0),
        written: 0,
    };
    for api in system.replicas.clone() {
        session.list(&api).await;
    }
    Ok(())
}
