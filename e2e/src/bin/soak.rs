//! `soak`: a seeded run of user actions and faults against real processes, with a result and the command to repeat
//! it.
#![allow(clippy::print_stdout, reason = "prints its result")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use e2e::soak::schedule::{Engine, ScheduledStep, SoakPlan};
use e2e::soak::{SoakResult, schedule};

const USAGE: &str = "\
soak --seed N [--minutes N | --seconds N] [--engine embedded|etcd] [--no-members] [--real-member]
     [--toleration SECONDS] [--directory DIR]
soak --replay DIR/schedule.jsonl [--directory DIR]
soak --check DIR/history.jsonl

The same seed and options are the same schedule; what was drawn is in DIR/schedule.jsonl and can be done again with
--replay, also after lines were taken out of it. DIR is new in the temporary directory unless it is named.";

enum Ask {
    Run { plan: SoakPlan, directory: Option<PathBuf> },
    Replay { file: PathBuf, directory: Option<PathBuf> },
    Check(PathBuf),
}

/// Faults that hang do not keep the program from exiting.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("no runtime: {error}");
            return ExitCode::from(2);
        }
    };
    let code = runtime.block_on(answer());
    runtime.shutdown_timeout(EXIT_TIMEOUT);
    code
}

async fn answer() -> ExitCode {
    match parse(std::env::args().skip(1)) {
        Err(why) => {
            eprintln!("{why}\n\n{USAGE}");
            ExitCode::from(2)
        }
        Ok(Ask::Check(file)) => check(&file),
        Ok(Ask::Run { plan, directory }) => {
            let steps = schedule::draw(&plan);
            soak(&plan, &steps, directory, &repeat(&plan)).await
        }
        Ok(Ask::Replay { file, directory }) => match schedule::read(&file) {
            Ok((plan, steps)) => soak(&plan, &steps, directory, &format!("soak --replay {}", file.display())).await,
            Err(error) => {
                eprintln!("{}: {error}", file.display());
                ExitCode::from(2)
            }
        },
    }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Ask, String> {
    let mut plan = SoakPlan {
        seed: SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| u64::from(since.subsec_nanos())),
        seconds: 300,
        engine: Engine::Embedded,
        has_members: true,
        has_real_member: false,
        toleration_seconds: 300,
    };
    let (mut replay, mut directory) = (None, None);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        let number = |text: String| text.parse::<u64>().map_err(|error| format!("{text}: {error}"));
        match argument.as_str() {
            "--seed" => plan.seed = number(value()?)?,
            "--minutes" => plan.seconds = number(value()?)? * 60,
            "--seconds" => plan.seconds = number(value()?)?,
            "--toleration" => plan.toleration_seconds = number(value()?)?,
            "--engine" => {
                plan.engine = match value()?.as_str() {
                    "embedded" => Engine::Embedded,
                    "etcd" => Engine::Etcd,
                    other => return Err(format!("unknown engine {other}")),
                }
            }
            "--no-members" => plan.has_members = false,
            "--real-member" => plan.has_real_member = true,
            "--replay" => replay = Some(PathBuf::from(value()?)),
            "--directory" => directory = Some(PathBuf::from(value()?)),
            "--check" => return Ok(Ask::Check(value()?.into())),
            other => return Err(format!("{other}?")),
        }
    }
    Ok(match replay {
        Some(file) => Ask::Replay { file, directory },
        None => Ask::Run { plan, directory },
    })
}

fn repeat(plan: &SoakPlan) -> String {
    let engine = if plan.engine == Engine::Etcd { "etcd" } else { "embedded" };
    let members = if plan.has_members { "" } else { " --no-members" };
    let real = if plan.has_real_member { " --real-member" } else { "" };
    let SoakPlan { seed, seconds, toleration_seconds, .. } = plan;
    format!("soak --seed {seed} --seconds {seconds} --engine {engine} --toleration {toleration_seconds}{members}{real}")
}

async fn soak(plan: &SoakPlan, steps: &[ScheduledStep], directory: Option<PathBuf>, repeat: &str) -> ExitCode {
    let directory =
        directory.unwrap_or_else(|| std::env::temp_dir().join(format!("soak-{}-{}", plan.seed, std::process::id())));
    if let Err(error) = std::fs::create_dir_all(&directory) {
        eprintln!("{}: {error}", directory.display());
        return ExitCode::from(2);
    }
    // Programs would continue with the data of an earlier run.
    if std::fs::read_dir(&directory).is_ok_and(|mut entries| entries.next().is_some()) {
        eprintln!("{} is not empty: choose another --directory", directory.display());
        return ExitCode::from(2);
    }
    println!("==> {repeat}\n    in {}", directory.display());
    let result = match e2e::soak::run(plan, steps, &directory).await {
        Ok(result) => result,
        Err(why) => {
            println!("==> NO RESULT: {why}");
            return ExitCode::from(2);
        }
    };
    print(&result);
    if result.violations.is_empty() {
        println!("==> GOOD: {repeat}");
        return ExitCode::SUCCESS;
    }
    println!("==> FAILED: {} violations; repeat with: {repeat}", result.violations.len());
    println!("    or replay the schedule with: soak --replay {}", directory.join("schedule.jsonl").display());
    ExitCode::FAILURE
}

fn print(result: &SoakResult) {
    let SoakResult { counts, faults, actions, skipped, rest, .. } = result;
    println!(
        "==> {faults} faults, {actions} user actions ({skipped} more were late and skipped); converged {rest:.1?} after \
         the last fault"
    );
    println!(
        "    {} writes acknowledged, {} refused, {} unknown; {} reads, {} lists, {} watch events",
        counts.acknowledged, counts.refused, counts.unknown, counts.reads, counts.lists, counts.events
    );
    for (word, lines) in [("refused", &result.refused), ("note", &result.notes)] {
        lines.iter().for_each(|line| println!("    {word}: {line}"));
    }
    result.violations.iter().for_each(|violation| println!("    VIOLATION {violation}"));
}

fn check(file: &Path) -> ExitCode {
    match e2e::history::read(file) {
        Err(error) => {
            eprintln!("{}: {error}", file.display());
            ExitCode::from(2)
        }
        Ok(entries) => {
            let found = e2e::history::writes::check(&entries);
            println!("{:?}", e2e::history::writes::count(&entries));
            found.iter().for_each(|violation| println!("VIOLATION {violation}"));
            if found.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
    }
}
