//! The tables of the propagation benchmark.

use std::fmt::Write;

use crate::fleet::plane::Which;
use crate::propagation::costs;
use crate::propagation::measure::{Block, PropagationMeasured};
use crate::propagation::{BLOCK, Results};
use crate::report::plot::{Lines, Panel};
use crate::report::rows::{Better, Row, RowTarget, grouped};

const HEAD: &str = "| plane | Deployments | present/s | p50 | p99 | ready/s | p50 | p99 | CPU per object | of the members | idle memory | after |\n\
|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n";

pub fn rows(results: &Results) -> Vec<Row> {
    let find = |plane, raised| results.flat_out.iter().find(|m| m.plane == plane && m.raised == raised);
    let Some(ours) = find(Which::Flotilla, false) else { return Vec::new() };
    let theirs = find(Which::Karmada, false).filter(|theirs| theirs.count == ours.count);
    let count = grouped(ours.count);
    let mut rows = Vec::new();
    let mut row = |what: &str, unit, better, value: fn(&PropagationMeasured) -> f64, target: Option<RowTarget>| {
        rows.push(Row::new(
            format!("{count} Deployments, {what}"),
            unit,
            better,
            value(ours),
            theirs.map(value),
            target,
        ));
    };
    let tenth = Some(RowTarget::Ratio(10.0));
    row("present in all members", "per second", Better::Higher, |m| m.present_per_second, tenth);
    row("present, p50", "ms", Better::Lower, |m| m.present.p50_ms, None);
    row("present, p99", "ms", Better::Lower, |m| m.present.p99_ms, None);
    row("ready on the template", "per second", Better::Higher, |m| m.ready_per_second, tenth);
    row("CPU of the plane per Deployment", "ms", Better::Lower, |m| m.cpu_ms_per_object, tenth);
    row("memory of the plane before", "MiB", Better::Lower, |m| m.idle.resident_mib, tenth);
    row("memory of the plane after", "MiB", Better::Lower, |m| m.after.resident_mib, tenth);
    if ours.other_creates.p99_ms > 0.0 {
        let what = format!("{count} Deployments, create by another client meanwhile, p99");
        let theirs = theirs.map(|theirs| theirs.other_creates.p99_ms).filter(|p99| *p99 > 0.0);
        let target = Some(RowTarget::Below(100.0));
        rows.push(Row::new(what, "ms", Better::Lower, ours.other_creates.p99_ms, theirs, target));
    }
    if ours.costs.writes_in_all() > 0.0 {
        rows.push(Row::new(
            format!("{count} Deployments, store writes of any kind per Deployment"),
            "",
            Better::Lower,
            ours.costs.writes_in_all(),
            None,
            Some(RowTarget::Below(14.0)),
        ));
    }
    if let Some(raised) = find(Which::Karmada, true) {
        let versus = |what: &str, unit, better, value: fn(&PropagationMeasured) -> f64| {
            Row::new(
                format!("{count}, Karmada with raised limits: {what}"),
                unit,
                better,
                value(ours),
                Some(value(raised)),
                None,
            )
        };
        rows.push(versus("present", "per second", Better::Higher, |m| m.present_per_second));
        rows.push(versus("CPU per Deployment", "ms", Better::Lower, |m| m.cpu_ms_per_object));
    }
    rows.extend(results.paced.iter().filter(|m| m.plane == Which::Flotilla).flat_map(|ours| pace_rows(results, ours)));
    rows.extend(growth_row(results));
    rows
}

/// A pace that is not held has no latencies, since those of the arrived ones would be misleading.
fn pace_rows(results: &Results, ours: &PropagationMeasured) -> Vec<Row> {
    let theirs = results.paced.iter().find(|m| m.plane == Which::Karmada && m.pace == ours.pace);
    let pace = ours.pace.unwrap_or_default();
    let held = |m: &PropagationMeasured| f64::from(u8::from(m.holds_pace() == Some(true)));
    let what = format!("{pace} per second, held (1 is yes)");
    let target = Some(RowTarget::AtLeast(1.0));
    // Yes and no have no ratio.
    let held = Row { ratio: None, ..Row::new(what, "", Better::Higher, held(ours), theirs.map(held), target) };
    let mut rows = vec![held];
    let theirs = theirs.filter(|theirs| theirs.holds_pace() == Some(true));
    let mut row = |name: &str, value: fn(&PropagationMeasured) -> f64| {
        let what = format!("{pace} per second, present in all members, {name}");
        rows.push(Row::new(what, "ms", Better::Lower, value(ours), theirs.map(value), None));
    };
    row("p50", |m| m.present.p50_ms);
    row("p99", |m| m.present.p99_ms);
    rows
}

/// The last blocks relative to the first, to show a falling rate. Averages, since a single block is noisy.
fn growth_row(results: &Results) -> Option<Row> {
    let blocks = &results.growth.as_ref()?.blocks;
    let share = (blocks.len() / 4).max(1);
    let mean = |blocks: &[Block]| blocks.iter().map(|b| b.per_second).sum::<f64>() / blocks.len().max(1) as f64;
    let (first, last) = (mean(blocks.get(..share)?), mean(&blocks[blocks.len() - share..]));
    let what = format!("rate of the last quarter of {} over the first", grouped(results.growth.as_ref()?.count));
    Some(Row::new(what, "", Better::Higher, last / first.max(f64::EPSILON), None, Some(RowTarget::AtLeast(0.9))))
}

pub fn details(results: &Results) -> String {
    let who = if results.light_members {
        "nothing: members are `flotilla member` processes"
    } else if results.real_workloads {
        "real controllers, scheduler and kwok nodes"
    } else {
        "this program, which marks each Deployment as ready with one write"
    };
    let mut text = format!(
        "{} members, each a kube-apiserver on an etcd of its own that does not wait for the disk, with {who}; every \
         Deployment is duplicated to all. Karmada runs with its default settings; \"raised\" is Karmada again after its controller \
         manager and scheduler were restarted with limits of 2,000 requests per second and four times the workers.\n\n\
         Flat out, all created by 16 clients at once:\n\n{HEAD}",
        results.members
    );
    for measured in &results.flat_out {
        let _ = writeln!(text, "{}", line(measured));
    }
    let ours = results.flat_out.iter().find(|measured| measured.plane == Which::Flotilla);
    text.push_str(&ours.map(|measured| costs::table(&measured.costs)).unwrap_or_default());
    text.push_str("\nAt a steady pace, from the create to present in all members:\n\n");
    text.push_str(
        "| plane | per second | held | arrived | p50 | p99 | CPU per object |\n|---|---:|---|---:|---:|---:|---:|\n",
    );
    for measured in &results.paced {
        let _ = writeln!(text, "{}", paced_line(measured));
    }
    let faster = results.paced.iter().filter(|m| m.plane == Which::Karmada && m.holds_pace() == Some(false));
    for measured in faster {
        let pace = measured.pace.unwrap_or_default();
        let _ = writeln!(text, "\nKarmada does not hold {pace} per second, so it was not asked for more.");
    }
    if let Some(growth) = &results.growth {
        let _ = write!(
            text,
            "\nFlotilla growing to {} Deployments in one namespace, at most 1,000 on their way at once:\n\n",
            grouped(growth.count)
        );
        text.push_str("| Deployments | per second in the last 1,000 | CPU per object | of the members | memory |\n");
        text.push_str("|---:|---:|---:|---:|---:|\n");
        let shown = [1, 2, 5, 10, 15, 20];
        for block in growth.blocks.iter().filter(|block| shown.contains(&(block.until / BLOCK))) {
            let _ = writeln!(
                text,
                "| {} | {:.1} | {:.1} ms | {:.1} ms | {:.0} MiB |",
                grouped(block.until),
                block.per_second,
                block.cpu_ms_per_object,
                block.members_cpu_ms_per_object,
                block.memory.resident_mib
            );
        }
        if !growth.is_complete() {
            let _ = writeln!(text, "\nIt was ended at its limit in time, after {} Deployments.", growth.arrived);
        }
    }
    text
}

pub fn line(m: &PropagationMeasured) -> String {
    let name = if m.raised { "karmada, raised".to_owned() } else { m.plane.to_string() };
    let count = if m.is_complete() { m.count.to_string() } else { format!("{} of {} in time", m.arrived, m.count) };
    format!(
        "| {name} | {count} | {:.1} | {:.0} ms | {:.0} ms | {:.1} | {:.0} ms | {:.0} ms | {:.1} ms | {:.1} ms | {:.0} MiB | {:.0} MiB |",
        m.present_per_second,
        m.present.p50_ms,
        m.present.p99_ms,
        m.ready_per_second,
        m.ready.p50_ms,
        m.ready.p99_ms,
        m.cpu_ms_per_object,
        m.members_cpu_ms_per_object,
        m.idle.resident_mib,
        m.after.resident_mib,
    )
}

fn paced_line(m: &PropagationMeasured) -> String {
    let held = if m.holds_pace() == Some(true) { "yes" } else { "**no**" };
    format!(
        "| {} | {} | {held} | {} of {} | {:.0} ms | {:.0} ms | {:.1} ms |",
        m.plane,
        m.pace.unwrap_or_default(),
        m.arrived,
        m.count,
        m.present.p50_ms,
        m.present.p99_ms,
        m.cpu_ms_per_object
    )
}

/// The growth curve in three panels, with Karmada's flat-out run as reference.
pub fn growth_panels(results: &Results) -> Vec<Panel> {
    let Some(growth) = results.growth.as_ref().filter(|growth| growth.blocks.len() > 1) else { return Vec::new() };
    let theirs = results.flat_out.iter().find(|m| m.plane == Which::Karmada && !m.raised);
    let until = |block: &Block| block.until as f64;
    let curve = |name: &str, value: fn(&Block) -> f64| Lines {
        name: name.to_owned(),
        points: growth.blocks.iter().map(|block| (until(block), value(block))).collect(),
    };
    let level = |value: fn(&PropagationMeasured) -> f64| {
        let end = growth.blocks.last().map_or(0.0, until);
        theirs.map(|theirs| Lines {
            name: format!("karmada at {}", theirs.arrived),
            points: vec![(0.0, value(theirs)), (end, value(theirs))],
        })
    };
    let panel = |title: &str, lines: Vec<Lines>, level: Option<Lines>| Panel {
        title: title.to_owned(),
        x: "Deployments on the plane".to_owned(),
        lines: lines.into_iter().chain(level).collect(),
    };
    vec![
        panel(
            "Deployments per second, by 1,000",
            vec![curve("flotilla", |b| b.per_second)],
            level(|m| m.present_per_second),
        ),
        panel(
            "CPU per Deployment, ms",
            vec![
                curve("flotilla", |b| b.cpu_ms_per_object),
                curve("the three members", |b| b.members_cpu_ms_per_object),
            ],
            level(|m| m.cpu_ms_per_object),
        ),
        panel(
            "memory of the plane, MiB",
            vec![curve("flotilla", |b| b.memory.resident_mib)],
            level(|m| m.after.resident_mib),
        ),
    ]
}
