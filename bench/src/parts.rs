//! The parts of a run: their time limits, execution and results.

use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Parser;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::options::{Api, ApiOptions, BenchOptions, Command};
use crate::outcome::{PartOutcome, Run};
use crate::{
    agents, api_server, failover, machine, manager, programs, propagation, report, restart, scale, scheduler, search,
    start,
};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BenchPart {
    Start,
    Api,
    Scheduler,
    Propagation,
    Restart,
    Failover,
    Agents,
    Scale,
    Search,
    Manager,
}

impl BenchPart {
    pub const ALL: [Self; 10] = [
        Self::Start,
        Self::Api,
        Self::Scheduler,
        Self::Propagation,
        Self::Restart,
        Self::Failover,
        Self::Agents,
        Self::Scale,
        Self::Search,
        Self::Manager,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Api => "api",
            Self::Scheduler => "scheduler",
            Self::Propagation => "propagation",
            Self::Restart => "restart",
            Self::Failover => "failover",
            Self::Agents => "agents",
            Self::Scale => "scale",
            Self::Search => "search",
            Self::Manager => "manager",
        }
    }

    /// Expected and maximum duration on two cores, in seconds.
    fn seconds(self, quick: bool) -> (u64, u64) {
        match (self, quick) {
            (Self::Start, false) => (90, 180),
            (Self::Start, true) => (75, 120),
            (Self::Api, false) => (240, 400),
            (Self::Api, true) => (75, 150),
            (Self::Scheduler, false) => (35, 60),
            (Self::Scheduler, true) => (10, 40),
            (Self::Propagation, false) => (1400, 1900),
            (Self::Propagation, true) => (150, 240),
            (Self::Restart, false) => (270, 400),
            (Self::Restart, true) => (100, 180),
            (Self::Failover, false) => (110, 210),
            (Self::Failover, true) => (40, 120),
            (Self::Agents, false) => (200, 330),
            (Self::Agents, true) => (60, 120),
            (Self::Scale, false) => (500, 700),
            (Self::Scale, true) => (60, 120),
            (Self::Search, false) => (150, 300),
            (Self::Search, true) => (60, 120),
            (Self::Manager, false) => (150, 400),
            (Self::Manager, true) => (80, 160),
        }
    }
}

pub async fn run(options: &BenchOptions) -> anyhow::Result<()> {
    let parts: &[BenchPart] = match &options.command {
        None | Some(Command::All) => &BenchPart::ALL,
        Some(Command::Report) => return report::write(&options.out),
        Some(Command::Start) => &[BenchPart::Start],
        Some(Command::Api(_)) => &[BenchPart::Api],
        Some(Command::Scheduler(_)) => &[BenchPart::Scheduler],
        Some(Command::Propagation(_)) => &[BenchPart::Propagation],
        Some(Command::Restart(_)) => &[BenchPart::Restart],
        Some(Command::Failover(_)) => &[BenchPart::Failover],
        Some(Command::Agents(_)) => &[BenchPart::Agents],
        Some(Command::Scale(_)) => &[BenchPart::Scale],
        Some(Command::Search(_)) => &[BenchPart::Search],
        Some(Command::Manager(_)) => &[BenchPart::Manager],
    };
    let options = &programs::with_flotilla(options).await?;
    let run = describe(options)?;
    let (expected, most) =
        parts.iter().map(|part| part.seconds(options.quick)).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
    let names: Vec<&str> = parts.iter().map(|part| part.name()).collect();
    let budget = options.size(options.minutes, 10.0, 60.0).clamp(0.1, 600.0);
    let budget = Duration::from_secs_f64(budget * 60.0);
    let most = if options.minutes.is_some() { budget.as_secs() } else { most.min(budget.as_secs()) };
    eprintln!("{}: about {} minutes, at most {}", names.join(", "), expected.div_ceil(60), most.div_ceil(60));
    if run.is_debug() {
        eprintln!("{} is a debug build: its figures are meaningless", run.program);
    }
    let end = Instant::now() + budget;
    for part in parts {
        eprintln!("\n== {} (about {} s)", part.name(), part.seconds(options.quick).0);
        let left = end.saturating_duration_since(Instant::now());
        run_part(*part, options, &run, left).await?;
    }
    report::write(&options.out)
}

fn describe(options: &BenchOptions) -> anyhow::Result<Run> {
    Ok(Run {
        started: jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
        machine: machine::describe(&options.data),
        versions: programs::versions(options)?,
        program: programs::flotilla(options)?.display().to_string(),
        quick: options.quick,
    })
}

async fn run_part(part: BenchPart, options: &BenchOptions, run: &Run, left: Duration) -> anyhow::Result<()> {
    let it = Attempt { part, options, run, left };
    let command = options.command.as_ref();
    match part {
        BenchPart::Start => it.make(async |found, notes| start::run(options, found, notes).await).await,
        BenchPart::Api => {
            // The default options.
            let default = BenchOptions::parse_from(["bench", "api"]).command;
            let of = |command: Option<&Command>| match command {
                Some(Command::Api(own)) => Some(own.clone()),
                _ => None,
            };
            let own: ApiOptions = of(command).or_else(|| of(default.as_ref())).context("the defaults of api")?;
            let api = Api { options, own: &own };
            it.make(async |found, notes| api_server::run(api, found, notes).await).await
        }
        BenchPart::Scheduler => {
            let own = if let Some(Command::Scheduler(own)) = command { own.clone() } else { Default::default() };
            it.make(async |found, _| scheduler::run(options, &own, found).await).await
        }
        BenchPart::Propagation => {
            let own = if let Some(Command::Propagation(own)) = command { own.clone() } else { Default::default() };
            it.make(async |found, notes| propagation::run(options, &own, found, notes).await).await
        }
        BenchPart::Restart => {
            let own = if let Some(Command::Restart(own)) = command { own.clone() } else { Default::default() };
            it.make(async |found, notes| restart::run(options, &own, found, notes).await).await
        }
        BenchPart::Failover => {
            let own = if let Some(Command::Failover(own)) = command { own.clone() } else { Default::default() };
            it.make(async |found, _| failover::run(options, &own, found).await).await
        }
        BenchPart::Agents => {
            let own = if let Some(Command::Agents(own)) = command { own.clone() } else { Default::default() };
            it.make(async |found, _| agents::run(options, &own, found).await).await
        }
        BenchPart::Scale => {
            let own = if let Some(Command::Scale(own)) = command { own.clone() } else { Default::default() };
            it.make(async |found, notes| scale::run(options, &own, found, notes).await).await
        }
        BenchPart::Search => {
            let own = if let Some(Command::Search(own)) = command { own.clone() } else { Default::default() };
            it.make(async |found, _| search::run(options, &own, found).await).await
        }
        BenchPart::Manager => {
            let own = if let Some(Command::Manager(own)) = command { own.clone() } else { Default::default() };
            it.make(async |found, _| manager::run(options, &own, found).await).await
        }
    }
}

/// One part with its time limit.
struct Attempt<'a> {
    part: BenchPart,
    options: &'a BenchOptions,
    run: &'a Run,
    /// The remaining time of the whole run.
    left: Duration,
}

impl Attempt<'_> {
    /// Keeps the results even if the part failed or timed out; later parts still run.
    async fn make<T: Default + Serialize + DeserializeOwned>(
        &self,
        work: impl AsyncFnOnce(&mut T, &mut Vec<String>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let (mut results, mut notes) = (T::default(), Vec::new());
        let own = Duration::from_secs(self.part.seconds(self.options.quick).1);
        // An explicit time limit overrides that of the part, for example on a slow machine.
        let limit = if self.options.minutes.is_some() { self.left } else { own.min(self.left) };
        let begin = Instant::now();
        let failed = match tokio::time::timeout(limit, work(&mut results, &mut notes)).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(format!("{error:#}")),
            Err(_) if self.left.is_zero() => Some("no time was left for it".to_owned()),
            Err(_) => Some(format!("not done after {} s", limit.as_secs())),
        };
        let took_seconds = begin.elapsed().as_secs_f64();
        for problem in failed.iter().chain(&notes) {
            eprintln!("  {}: {problem}", self.part.name());
        }
        eprintln!("  took {took_seconds:.0} s");
        let outcome = PartOutcome { run: self.run.clone(), took_seconds, failed, notes, results };
        outcome.save(&self.options.out, self.part.name())
    }
}
