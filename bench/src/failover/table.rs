//! The tables of the failover benchmark.

use std::fmt::Write;

use crate::failover::follow::FailoverStage;
use crate::failover::{FailoverMeasured, MemberKind, Results};
use crate::report::rows::{Better, Row, RowTarget};

pub fn rows(results: &Results) -> Vec<Row> {
    let mut rows = Vec::new();
    for run in &results.runs {
        let members = if run.members == MemberKind::Light { ", light members" } else { "" };
        let what = |what: &str| format!("{} applications, at most {}/s{members}: {what}", run.applications, run.rate);
        if let Some(ready) = run.stages.iter().find(|stage| stage.name == FailoverStage::Ready.name()) {
            let target = (run.members == MemberKind::Light).then_some(RowTarget::AtLeast(400.0));
            rows.push(Row::new(what("moved to ready"), "per second", Better::Higher, ready.per_second, None, target));
        }
        rows.push(Row::new(
            what("first ready elsewhere, beyond its patience"),
            "s",
            Better::Lower,
            run.first_ready_beyond_patience_seconds,
            None,
            Some(RowTarget::Below(1.0)),
        ));
        let moved = run.moves.p50_ms;
        rows.push(Row::new(what("from leaving to ready, p50"), "ms", Better::Lower, moved, None, None));
        let over = run.evictions_per_second / run.rate;
        rows.push(Row::new(
            what("evictions over the rate set"),
            "",
            Better::Lower,
            over,
            None,
            Some(RowTarget::Below(1.03)),
        ));
    }
    rows
}

pub fn details(results: &Results) -> String {
    let mut text = "One of three members is killed with all applications on it; they have a `tolerationSeconds`, purge gracefully and \
                    go to one of the other two. Members are asked every second and count as lost after two. No comparison: Karmada's \
                    failover was not run.\n\n\
                    | applications | rate set | evictions/s | most in 1 s | rate holds | detected after | first ready, beyond its patience | last \
                    ready after the taint | move p50 | p99 | CPU per application | of members and clients |\n\
                    |---:|---:|---:|---:|---|---:|---:|---:|---:|---:|---:|---:|\n"
        .to_owned();
    for run in &results.runs {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", line(run));
    }
    text.push_str("\nWhere the time of a move goes, step by step, and how many come to each stage in a second. Where evictions come \
         faster than this machine lets the plane decide, they wait before they are scheduled:\n");
    for run in &results.runs {
        let members = if run.members == MemberKind::Light { ", light members" } else { "" };
        let _ = write!(text, "\nAt most {} in a second{members}:\n\n{}", run.rate, stages(run));
    }
    text
}

pub fn stages(run: &FailoverMeasured) -> String {
    let mut text = "| stage | p50 since the one before | p99 | per second |\n|---|---:|---:|---:|\n".to_owned();
    for stage in &run.stages {
        let (name, step, rate) = (&stage.name, stage.step, stage.per_second);
        let _ = writeln!(text, "| {name} | {:.0} ms | {:.0} ms | {rate:.1} |", step.p50_ms, step.p99_ms);
    }
    text
}

pub fn line(run: &FailoverMeasured) -> String {
    format!(
        "| {}{} | {} | {:.1} | {} | {} | {:.1} s | {:+.2} s of {} s | {:.1} s | {:.0} ms | {:.0} ms | {:.1} ms | {:.1} ms |",
        run.applications,
        if run.members == MemberKind::Light { ", light members" } else { "" },
        run.rate,
        run.evictions_per_second,
        run.evictions_in_a_second_max,
        if run.rate_holds { "yes" } else { "**NO**" },
        run.detection_seconds,
        run.first_ready_beyond_patience_seconds,
        run.patience_seconds,
        run.last_ready_seconds,
        run.moves.p50_ms,
        run.moves.p99_ms,
        run.cpu_ms_per_application,
        run.others_cpu_ms_per_application,
    )
}
