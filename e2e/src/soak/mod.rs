//! A long run: clients, user actions and faults on a seeded schedule, then convergence, then the result.

pub mod api;
pub mod chance;
pub mod clients;
pub mod observe;
pub mod schedule;
pub mod users;
pub mod world;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::faults::{Fault, Target};
use crate::history::applied::{Rest, check_rest, check_steps};
use crate::history::writes::{self, Counts, Violation};
use crate::history::{Entry, Log};
use api::{Answer, Api};
use chance::Chance;
use clients::Session;
use observe::Steps;
use schedule::{Action, Plan, Step};
use users::{Users, Wishes};
use world::World;

const SESSIONS: u64 = 4;
/// Everything must have converged within this time after the last fault was healed.
const REST_TIMEOUT: Duration = Duration::from_secs(240);
/// The converged state must be stable for this long.
const REST_LASTS: Duration = Duration::from_secs(4);
/// A program may exit this much later because of a broken disk.
const DISK_SHADOW: Duration = Duration::from_secs(30);
/// Consecutive liveness failures before a restart.
const DEAD_MAX: u32 = 4;

/// The result of a run.
#[derive(Debug, Default)]
pub struct Verdict {
    pub violations: Vec<Violation>,
    pub counts: Counts,
    /// Unsupported faults.
    pub refused: Vec<String>,
    /// Observations that are not violations.
    pub notes: Vec<String>,
    pub faults: usize,
    pub deeds: usize,
    /// Time to converge after the last fault.
    pub rest: Duration,
}

/// Events of a run that are not in a history.
#[derive(Default)]
struct Diary {
    violations: Vec<Violation>,
    refused: Vec<String>,
    notes: Vec<String>,
    /// Programs that may exit, and until when.
    excuses: Vec<(String, Instant)>,
    faults: usize,
    deeds: usize,
}

type SharedDiary = Arc<Mutex<Diary>>;

fn with<T>(diary: &SharedDiary, act: impl FnOnce(&mut Diary) -> T) -> T {
    act(&mut diary.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Runs a schedule in a directory, which keeps all logs. Ctrl-C stops all started programs.
pub async fn run(plan: &Plan, steps: &[Step], directory: &Path) -> Result<Verdict, String> {
    schedule::write(&directory.join("schedule.jsonl"), plan, steps).map_err(|error| error.to_string())?;
    let world = Arc::new(World::start(plan, directory).await?);
    tokio::select! {
        verdict = run_in(Arc::clone(&world), plan, steps, directory) => verdict,
        _ = tokio::signal::ctrl_c() => {
            // Tasks may still hold references, so programs are not stopped by dropping.
            world.targets.values().for_each(|target| target.subject().kill());
            Err("it was interrupted".to_owned())
        }
    }
}

async fn run_in(world: Arc<World>, plan: &Plan, steps: &[Step], directory: &Path) -> Result<Verdict, String> {
    let diary: SharedDiary = Arc::default();
    with(&diary, |diary| diary.refused.extend(world.refused.iter().map(ToString::to_string)));
    let log = Arc::new(Log::create(&directory.join("history.jsonl")).map_err(|error| error.to_string())?);
    let seen = Arc::new(Steps::create(&directory.join("steps.jsonl")).map_err(|error| error.to_string())?);
    let cancel = CancellationToken::new();
    let mut users = Users::new(Arc::clone(&world));
    let wishes = Arc::clone(&users.wishes);
    let observers = if plan.has_members { observe::begin(&world, &seen, &cancel) } else { Vec::new() };
    if plan.has_members {
        users.settle_in().await?;
    }
    let (sessions, watchers, stop_sessions) = begin_clients(plan, &world, &log, &cancel).await?;
    let supervisor = tokio::spawn(supervise(Arc::clone(&world), Arc::clone(&diary), cancel.clone()));
    let start = Instant::now();
    let deeds = tokio::spawn(do_deeds(users, steps.to_vec(), start, Arc::clone(&diary)));
    do_faults(&world, steps, start, Duration::from_secs(plan.seconds), &diary).await;
    deeds.await.map_err(|error| error.to_string())?;
    stop_sessions.cancel();
    join(sessions).await;
    let healed = Instant::now();
    let rest = come_to_rest(plan, &world, &wishes, &diary).await;
    let rest_took = healed.elapsed();
    last_list(&world, &log).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    cancel.cancel();
    join(watchers).await;
    join(observers).await;
    join(vec![supervisor]).await;
    Ok(judge(&log.entries(), &seen, &rest, &diary, rest_took))
}

async fn join(tasks: Vec<JoinHandle<()>>) {
    for task in tasks {
        // A panicked task has printed its message already.
        let _ = task.await;
    }
}

fn judge(entries: &[Entry], seen: &Steps, rest: &Rest, diary: &SharedDiary, rest_took: Duration) -> Verdict {
    let (mut violations, refused, mut notes, faults, deeds) = with(diary, |diary| {
        let Diary { violations, refused, notes, faults, deeds, .. } = std::mem::take(diary);
        (violations, refused, notes, faults, deeds)
    });
    violations.extend(writes::check(entries));
    let steps = seen.all();
    notes.push(format!("{} steps of bindings, works and members were seen", steps.len()));
    violations.extend(check_steps(&steps, rest));
    Verdict { violations, counts: writes::count(entries), refused, notes, faults, deeds, rest: rest_took }
}

type Clients = (Vec<JoinHandle<()>>, Vec<JoinHandle<()>>, CancellationToken);

async fn begin_clients(
    plan: &Plan,
    world: &World,
    log: &Arc<Log>,
    cancel: &CancellationToken,
) -> Result<Clients, String> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": clients::NAMESPACE}});
    let answer = world.replicas[0].create("/api/v1/namespaces", &namespace).await;
    let Answer::Done(made) = answer else { return Err(format!("no namespace for clients: {answer:?}")) };
    let from = api::revision(&made);
    let stop = CancellationToken::new();
    let session = |number: u64| Session {
        name: format!("s{number}"),
        replicas: world.replicas.clone(),
        log: Arc::clone(log),
        chance: Chance::new(plan.seed, 100 + number),
        written: 0,
    };
    let sessions = (0..SESSIONS).map(|number| tokio::spawn(session(number).run(stop.clone())));
    // One watcher per replica, and one that moves between them.
    let mut places: Vec<Vec<Api>> = world.replicas.iter().map(|api| vec![api.clone()]).collect();
    places.push(world.replicas.clone());
    let watch = |(number, place)| {
        tokio::spawn(clients::watch(format!("w{number}"), place, Arc::clone(log), from, cancel.clone()))
    };
    let watchers = places.into_iter().enumerate().map(watch).collect();
    Ok((sessions.collect(), watchers, stop))
}

async fn do_deeds(mut users: Users, steps: Vec<Step>, start: Instant, diary: SharedDiary) {
    for Step { at_ms, action } in &steps {
        let Action::User(deed) = action else { continue };
        tokio::time::sleep_until((start + Duration::from_millis(*at_ms)).into()).await;
        let done = users.act(deed).await;
        with(&diary, |diary| {
            diary.deeds += 1;
            if let Err(why) = done {
                diary.notes.push(format!("{deed:?} failed: {why}"));
            }
        });
    }
}

/// Faults run independently; all are healed when this returns.
async fn do_faults(world: &World, steps: &[Step], start: Instant, length: Duration, diary: &SharedDiary) {
    let mut running = Vec::new();
    for Step { at_ms, action } in steps {
        let Action::Fault { target, fault, for_ms } = action else { continue };
        tokio::time::sleep_until((start + Duration::from_millis(*at_ms)).into()).await;
        let Some(target) = world.targets.get(target).cloned() else {
            with(diary, |diary| diary.refused.push(format!("target {target} does not exist in this run")));
            continue;
        };
        running.push(tokio::spawn(do_fault(target, *fault, Duration::from_millis(*for_ms), Arc::clone(diary))));
    }
    tokio::time::sleep_until((start + length).into()).await;
    join(running).await;
}

async fn do_fault(target: Target, fault: Fault, lasts: Duration, diary: SharedDiary) {
    let is_of_disk = matches!(fault, Fault::FullDisk | Fault::BrokenDisk);
    let name = target.name.clone();
    let injected = tokio::task::spawn_blocking(move || target.inject(fault)).await;
    let injected = match injected {
        Ok(Ok(injected)) => injected,
        Ok(Err(why)) => return with(&diary, |diary| diary.refused.push(why.to_string())),
        Err(panic) => return with(&diary, |diary| diary.notes.push(format!("{fault:?} of {name}: {panic}"))),
    };
    eprintln!("  {name}: {fault:?} for {lasts:?}");
    with(&diary, |diary| {
        diary.faults += 1;
        if is_of_disk {
            diary.excuses.push((name.clone(), Instant::now() + lasts + DISK_SHADOW));
        }
    });
    tokio::time::sleep(lasts).await;
    if let Err(panic) = tokio::task::spawn_blocking(move || injected.heal()).await {
        with(&diary, |diary| diary.notes.push(format!("healing {fault:?} of {name}: {panic}")));
    }
}

/// Restarts programs that exited or fail their liveness check, as systemd and a kubelet would; only allowed after a
/// disk failure.
async fn supervise(world: Arc<World>, diary: SharedDiary, cancel: CancellationToken) {
    let mut dead = vec![0; world.replicas.len()];
    while !cancel.is_cancelled() {
        for target in world.targets.values() {
            let how = target.subject().revive();
            if let Some(how) = how {
                restarted(&target.name, &format!("exited by itself: {how}"), &diary);
            }
        }
        for (number, api) in world.replicas.iter().enumerate() {
            match api.get("/livez").await {
                Answer::Unknown(why) if why.starts_with("500") => dead[number] += 1,
                _ => dead[number] = 0,
            }
            let name = format!("plane-{number}");
            if dead[number] == DEAD_MAX
                && let Some(target) = world.targets.get(&name)
            {
                dead[number] = 0;
                target.subject().kill();
                target.subject().start();
                restarted(&name, "failed its liveness check and was restarted", &diary);
            }
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

fn restarted(name: &str, how: &str, diary: &SharedDiary) {
    let what = format!("{name} {how}");
    eprintln!("  {what}");
    with(diary, |diary| {
        let now = Instant::now();
        // A replica that starts while etcd is unavailable exits with this error and is restarted.
        let is_forgiven = how.contains("the store does not answer")
            || diary.excuses.iter().any(|(excused, until)| *excused == name && now < *until);
        match is_forgiven {
            true => diary.notes.push(what),
            false => diary.violations.push(Violation { rule: "stays up", what }),
        }
    });
}

/// Waits until the members match the decisions and stay so; remaining differences are violations.
async fn come_to_rest(plan: &Plan, world: &World, wishes: &Arc<Mutex<Wishes>>, diary: &SharedDiary) -> Rest {
    let start = Instant::now();
    let mut rest_since: Option<Instant> = None;
    loop {
        let wishes = wishes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (rest, missing) = if plan.has_members { look(world, &wishes).await } else { (Rest::default(), Vec::new()) };
        let missing: Vec<Violation> = missing.into_iter().chain(replicas_not_ready(world).await).collect();
        if missing.is_empty() {
            let since = *rest_since.get_or_insert_with(Instant::now);
            if since.elapsed() >= REST_LASTS {
                return rest;
            }
        } else {
            rest_since = None;
            if start.elapsed() > REST_TIMEOUT {
                with(diary, |diary| diary.violations.extend(missing));
                return rest;
            }
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

async fn look(world: &World, wishes: &Wishes) -> (Rest, Vec<Violation>) {
    let not_yet = |what: String| vec![Violation { rule: "converges", what }];
    match observe::ready_members(world).await {
        Err(why) => return (Rest::default(), not_yet(why)),
        Ok(ready) if ready != wishes.joined => {
            return (Rest::default(), not_yet(format!("ready are {ready:?}, joined {:?}", wishes.joined)));
        }
        Ok(_) => {}
    }
    match observe::take_stock(world, wishes).await {
        Err(why) => (Rest::default(), not_yet(why)),
        Ok(rest) => {
            let missing = check_rest(&rest);
            (rest, missing)
        }
    }
}

async fn replicas_not_ready(world: &World) -> Vec<Violation> {
    let mut found = Vec::new();
    for (number, api) in world.replicas.iter().enumerate() {
        match api.get("/readyz").await {
            Answer::Done(_) => {}
            other => found.push(Violation { rule: "converges", what: format!("plane-{number}: {other:?}") }),
        }
    }
    found
}

/// Lists the final state on every replica.
async fn last_list(world: &World, log: &Arc<Log>) -> Result<(), String> {
    let mut session = Session {
        name: "last".to_owned(),
        replicas: world.replicas.clone(),
        log: Arc::clone(log),
        chance: Chance::new(0, 0),
        written: 0,
    };
    for api in world.replicas.clone() {
        session.list(&api).await;
    }
    Ok(())
}
