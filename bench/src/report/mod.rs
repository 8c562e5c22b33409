//! One report of all parts: comparison, targets, missing parts, and two plots.

mod limit;
pub mod plot;
pub mod rows;

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use anyhow::Context;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::outcome::{PartOutcome, Run};
use crate::parts::BenchPart;
use crate::report::plot::{Bar, bars, panels};
use crate::report::rows::{Row, RowTarget, table};
use crate::{agents, api_server, failover, manager, propagation, restart, scale, scheduler, search, start};

/// The report of a part.
struct Chapter {
    part: BenchPart,
    title: &'static str,
    other: &'static str,
    /// `None` if it was never run here.
    found: Option<Found>,
}

struct Found {
    run: Run,
    took_seconds: f64,
    failed: Option<String>,
    notes: Vec<String>,
    rows: Vec<Row>,
    details: String,
}

/// Writes report.md and its plots from the figures in the directory.
pub fn write(folder: &Path) -> anyhow::Result<()> {
    let chapters: Vec<Chapter> = BenchPart::ALL.into_iter().map(|part| chapter(part, folder)).collect();
    let propagated = PartOutcome::<propagation::Results>::load(folder, BenchPart::Propagation.name());
    let propagated = propagated.map(|outcome| outcome.results);
    let growth = propagated.as_ref().map(propagation::table::growth_panels).unwrap_or_default();
    let api = PartOutcome::<api_server::results::Results>::load(folder, BenchPart::Api.name());
    let api = api.map(|outcome| outcome.results);
    let text = markdown(&chapters, !growth.is_empty()) + &limit::section(api.as_ref(), propagated.as_ref());
    let ratios = bars("How many times better flotilla is, one run on one machine", &bars_of(&chapters));
    let mut files = vec![("report.md", text.clone()), ("ratios.svg", ratios)];
    if !growth.is_empty() {
        files.push(("growth.svg", panels(&growth)));
    }
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    for (name, content) in files {
        let file = folder.join(name);
        std::fs::write(&file, content).with_context(|| format!("cannot write {}", file.display()))?;
        eprintln!("written: {}", file.display());
    }
    std::io::stdout().write_all(text.as_bytes()).context("cannot print the report")
}

fn chapter(part: BenchPart, folder: &Path) -> Chapter {
    let karmada = "Karmada";
    match part {
        BenchPart::Start => read(part, folder, "Start and idle", karmada, start::rows, start::details),
        BenchPart::Api => {
            let (rows, details) = (api_server::rows::rows, api_server::text::details);
            read(part, folder, "API server", "kube-apiserver + etcd", rows, details)
        }
        BenchPart::Scheduler => read(part, folder, "Scheduler alone", karmada, scheduler::rows, scheduler::details),
        BenchPart::Propagation => {
            let (rows, details) = (propagation::table::rows, propagation::table::details);
            read(part, folder, "Propagation", karmada, rows, details)
        }
        BenchPart::Restart => read(part, folder, "Restart", karmada, restart::rows, restart::details),
        BenchPart::Failover => read(part, folder, "Failover", karmada, failover::table::rows, failover::table::details),
        BenchPart::Agents => read(part, folder, "Agents", karmada, agents::rows, agents::details),
        BenchPart::Scale => read(part, folder, "Scale", karmada, scale::rows, scale::details),
        BenchPart::Search => read(part, folder, "Search", karmada, search::rows, search::details),
        BenchPart::Manager => read(part, folder, "Manager", karmada, manager::rows, manager::details),
    }
}

fn read<T: Serialize + DeserializeOwned>(
    part: BenchPart,
    folder: &Path,
    title: &'static str,
    other: &'static str,
    rows: fn(&T) -> Vec<Row>,
    details: fn(&T) -> String,
) -> Chapter {
    let found = PartOutcome::<T>::load(folder, part.name()).map(|outcome| {
        let PartOutcome { run, took_seconds, failed, notes, results } = outcome;
        Found { run, took_seconds, failed, notes, rows: rows(&results), details: details(&results) }
    });
    Chapter { part, title, other, found }
}

fn bars_of(chapters: &[Chapter]) -> Vec<Bar> {
    let rows = chapters.iter().filter_map(|chapter| chapter.found.as_ref()).flat_map(|found| &found.rows);
    rows.filter_map(|row| Some(Bar { name: row.what.clone(), ratio: row.ratio? })).collect()
}

fn markdown(chapters: &[Chapter], has_growth: bool) -> String {
    let mut text = String::from("# Benchmark\n\n");
    text += &runs(chapters);
    text += &in_short(chapters);
    text.push_str("\n![How many times better flotilla is](ratios.svg)\n");
    if has_growth {
        text.push_str("\n![Propagation as the number of Deployments grows](growth.svg)\n");
    }
    for Chapter { title, other, found, .. } in chapters {
        let Some(found) = found else { continue };
        let _ = write!(text, "\n## {title}\n\n");
        if let Some(reason) = &found.failed {
            let _ = write!(text, "**Not run to its end: {}**\n\n", one_line(reason));
        }
        for note in &found.notes {
            let _ = write!(text, "**{}**\n\n", one_line(note));
        }
        let rows = table(&found.rows, other);
        let _ = write!(text, "{rows}{}{}", if rows.is_empty() { "" } else { "\n" }, found.details);
        let _ = writeln!(text, "\nTook {:.0} s.", found.took_seconds);
    }
    text
}

/// The machine and programs; if parts are from several runs, which part is from which, so that they are not compared.
fn runs(chapters: &[Chapter]) -> String {
    let mut runs: Vec<(&Run, Vec<&str>)> = Vec::new();
    for chapter in chapters {
        let Some(found) = &chapter.found else { continue };
        match runs.iter_mut().find(|(run, _)| run.started == found.run.started) {
            Some((_, parts)) => parts.push(chapter.part.name()),
            None => runs.push((&found.run, vec![chapter.part.name()])),
        }
    }
    let mut text = String::new();
    for (run, parts) in &runs {
        let m = &run.machine;
        let _ = write!(
            text,
            "{}, {} cores of {}, {} GiB, Linux {}, data on {}; load before the run {:.2}. {}.",
            run.started,
            m.cores,
            m.processor,
            m.memory_gib,
            m.kernel,
            m.file_system,
            m.load_before,
            run.versions.join(", "),
        );
        if runs.len() > 1 {
            let _ = write!(text, " Parts of this run: {}.", parts.join(", "));
        }
        if run.quick {
            text.push_str(" **A rough picture (--quick): sizes are small.**");
        }
        if run.is_debug() {
            text.push_str(" **A debug build: the figures say nothing.**");
        }
        text.push_str("\n\n");
    }
    text.push_str(
        "Planes, members and load generator share the processors and the disk of one machine; every ratio is of figures taken in \
         the same run. A resident figure counts pages of files too, each process for itself.\n\n",
    );
    text
}

fn in_short(chapters: &[Chapter]) -> String {
    let all = || chapters.iter().filter_map(|chapter| chapter.found.as_ref()).flat_map(|found| found.rows.iter());
    let verdicts: Vec<bool> = all().filter_map(Row::met).collect();
    let met = verdicts.iter().filter(|met| **met).count();
    let mut text = format!("## In short\n\n{met} of {} targets met.\n", verdicts.len());
    let mut list = |title: &str, lines: Vec<String>| {
        if !lines.is_empty() {
            let _ = write!(text, "\n{title}\n\n- {}\n", lines.join("\n- "));
        }
    };
    let said = |row: &Row| match (row.ratio, row.target) {
        (Some(ratio), None | Some(RowTarget::Ratio(_))) => format!("{}: {ratio:.2}×", row.what),
        _ => format!("{}: {} {}", row.what, rows::number(row.flotilla), row.unit).trim_end().to_owned(),
    };
    list("Targets not met:", all().filter(|row| row.met() == Some(false)).map(said).collect());
    let behind: Vec<String> = all().filter(|row| row.is_behind()).map(said).collect();
    let nothing_behind = behind.is_empty();
    list("Where flotilla is not ahead:", behind);
    list("About the same:", all().filter(|row| row.is_level()).map(said).collect());
    let mut missing: Vec<String> = Vec::new();
    for Chapter { part, found, .. } in chapters {
        match found {
            None => missing.push(format!("{}: not run", part.name())),
            Some(found) => {
                let reasons = found.failed.iter().map(|reason| format!("{}: {}", part.name(), one_line(reason)));
                missing.extend(reasons);
                missing.extend(found.notes.iter().map(|note| format!("{}: {}", part.name(), one_line(note))));
            }
        }
    }
    list("Not run, or not to its end:", missing);
    if nothing_behind && all().any(|row| row.ratio.is_some()) {
        text.push_str("\nNothing that was compared is behind.\n");
    }
    text
}

/// Errors may contain the end of a log; only the first part is shown.
fn one_line(text: &str) -> String {
    const CHARACTERS_MAX: usize = 400;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(CHARACTERS_MAX).collect()
}

#[cfg(test)]
mod tests;
