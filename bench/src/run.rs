//! The whole run: programs first, then each measurement that was asked for, then the report.

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, ensure};

use crate::machine;
use crate::options::{Options, Scenario};
use crate::report::Report;
use crate::scenario::list::Encoding;
use crate::scenario::single::Operation;
use crate::scenario::{fill, growth, list, make_namespace, single, start, watch};
use crate::server::{Server, Side};

/// Holds the objects that are read, patched and listed.
const FILLED: &str = "filled";
/// Takes what the create load makes.
const CREATED: &str = "created";

pub async fn run(options: &Options) -> anyhow::Result<Report> {
    let options = &with_programs(options)?;
    let sides: &[Side] = if options.without_kube { &[Side::Flotilla] } else { &[Side::Flotilla, Side::Kube] };
    let begin = Instant::now();
    let mut report = Report::new(machine::describe(&options.data), versions(options)?, options);
    let on_objects = [Scenario::Create, Scenario::Get, Scenario::Patch, Scenario::List, Scenario::Watch];
    let servers = if options.wants(Scenario::Start) {
        say("start");
        let (servers, started) = start::measure(sides, options).await?;
        report.started = started;
        servers
    } else if on_objects.iter().any(|scenario| options.wants(*scenario)) {
        start::start_all(sides, options).await?
    } else {
        Vec::new()
    };
    measure_objects(&servers, options, &mut report).await?;
    drop(servers);
    if options.wants(Scenario::Growth) {
        say("growth");
        report.growth = growth::measure(sides, options).await?;
    }
    report.took_seconds = begin.elapsed().as_secs_f64();
    Ok(report)
}

async fn measure_objects(servers: &[Server], options: &Options, report: &mut Report) -> anyhow::Result<()> {
    if options.wants(Scenario::Create) {
        say("create");
        for server in servers {
            make_namespace(server, CREATED).await?;
        }
        report.create = single::measure(Operation::Create, CREATED, servers, options).await?;
    }
    let filled = [Scenario::Get, Scenario::Patch, Scenario::List];
    if filled.iter().any(|scenario| options.wants(*scenario)) {
        for server in servers {
            make_namespace(server, FILLED).await?;
            fill(server, FILLED, 0..options.listed_objects(), options.clients).await?;
        }
    }
    if options.wants(Scenario::Get) {
        say("get");
        report.get = single::measure(Operation::Get, FILLED, servers, options).await?;
    }
    if options.wants(Scenario::Patch) {
        say("patch");
        report.patch = single::measure(Operation::Patch, FILLED, servers, options).await?;
    }
    if options.wants(Scenario::List) {
        say("list");
        report.list = list::measure(Encoding::Plain, FILLED, servers, options).await?;
        report.list_gzip = list::measure(Encoding::Gzip, FILLED, servers, options).await?;
    }
    if options.wants(Scenario::Watch) {
        say("watch");
        report.watch = watch::measure(servers, options).await?;
    }
    Ok(())
}

fn say(scenario: &str) {
    eprintln!("measuring: {scenario}");
}

/// Builds what is not there, before any clock runs.
pub fn with_programs(options: &Options) -> anyhow::Result<Options> {
    let mut options = options.clone();
    std::fs::create_dir_all(&options.data).with_context(|| format!("cannot create {}", options.data.display()))?;
    let root = root();
    if options.flotilla.is_none() {
        eprintln!("building flotilla (release) ...");
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let built = Command::new(cargo).args(["build", "--release", "-p", "cli"]).current_dir(&root).status();
        ensure!(built.context("cannot run cargo")?.success(), "flotilla cannot be built");
        let own = std::env::current_exe().context("this program has no path")?;
        let target = own.ancestors().nth(2).context("this program is not in a target directory")?;
        options.flotilla = Some(target.join("release/flotilla"));
    }
    if !options.without_kube {
        let built = Command::new(root.join("tools/kube/build"))
            .args(["etcd", "kube-apiserver"])
            .env("FLOTILLA_KUBE_BIN", options.kube_bin())
            .status();
        let built = built.context("cannot run tools/kube/build")?.success();
        ensure!(built, "kube-apiserver and etcd are not there; --without-kube measures flotilla alone");
    }
    Ok(options)
}

fn versions(options: &Options) -> anyhow::Result<Vec<String>> {
    let flotilla = options.flotilla.as_ref().context("no flotilla program was built")?;
    let mut versions = vec![machine::version(flotilla, "--version")];
    if !options.without_kube {
        for program in ["kube-apiserver", "etcd"] {
            let version = machine::version(&options.kube_bin().join(program), "--version");
            versions.push(if version.contains(program) { version } else { format!("{program} {version}") });
        }
    }
    Ok(versions)
}

/// The tree this program was built from.
fn root() -> PathBuf {
    let crate_folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    crate_folder.parent().map_or(crate_folder.clone(), PathBuf::from)
}
