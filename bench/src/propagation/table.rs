//! What the propagation benchmark found, with the ratios that count.

use crate::propagation::measure::{Latency, Measured};
use crate::propagation::planes::Which;

const HEAD: &str = "| plane | Deployments | present/s | p50 | p99 | ready/s | p50 | p99 | CPU per object | idle memory | after |\n\
|---|---|---|---|---|---|---|---|---|---|---|\n";

/// All runs, and below them flotilla against Karmada where both ran.
pub fn table(results: &[Measured]) -> String {
    let mut text = HEAD.to_owned();
    for result in results {
        text.push_str(&line(result));
        text.push('\n');
    }
    let karmada = results.iter().filter(|result| result.plane == Which::Karmada);
    for theirs in karmada {
        let same = |ours: &&Measured| ours.plane == Which::Flotilla && ours.count == theirs.count;
        if let Some(ours) = results.iter().find(same) {
            text.push_str(&ratios(ours, theirs));
        }
    }
    text
}

pub fn line(result: &Measured) -> String {
    let latency = |latency: Option<Latency>| match latency {
        Some(latency) => format!("{:.0} ms | {:.0} ms", latency.p50_ms, latency.p99_ms),
        None => "- | -".to_owned(),
    };
    format!(
        "| {} | {} | {:.1} | {} | {} | {} | {:.1} ms | {:.0} MiB | {:.0} MiB |",
        result.plane,
        result.count,
        result.present_per_second,
        latency(Some(result.present)),
        result.ready_per_second.map_or("-".to_owned(), |rate| format!("{rate:.1}")),
        latency(result.ready),
        result.cpu_ms_per_object,
        result.idle.resident_mib,
        result.after.resident_mib,
    )
}

fn ratios(ours: &Measured, theirs: &Measured) -> String {
    format!(
        "\n{} Deployments: {:.1}x the rate to present, {:.1}x the rate to ready, 1/{:.1} of the CPU per object, \
         1/{:.1} of the idle memory, 1/{:.1} after.\n",
        ours.count,
        ours.present_per_second / theirs.present_per_second,
        ours.ready_per_second.unwrap_or(0.0) / theirs.ready_per_second.unwrap_or(f64::INFINITY),
        theirs.cpu_ms_per_object / ours.cpu_ms_per_object,
        theirs.idle.resident_mib / ours.idle.resident_mib,
        theirs.after.resident_mib / ours.after.resident_mib,
    )
}
