//! `failover simulate` as text.

use std::fmt::Write;

use crate::failover::{FailoverEffect, Simulation, WorkloadEffect};

/// The summary first, then a table of all workloads, those with problems on top.
pub fn text(simulation: &Simulation) -> String {
    let totals = &simulation.totals;
    let count = |number: usize, what: &str| (number > 0).then(|| format!("{number} {what}"));
    let parts = [
        count(totals.does_not_fit, "would not fit"),
        count(totals.moves, "would move"),
        count(totals.covered, "covered by other clusters"),
        count(totals.stays, "would stay"),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let sum = if parts.is_empty() { "nothing runs there".to_owned() } else { parts.join(", ") };
    let mut text = format!("Without {}: {sum}.\n", simulation.cluster);
    for note in &simulation.notes {
        // Writing to a String never fails.
        let _ = writeln!(text, "Note: {note}.");
    }
    if simulation.bindings.is_empty() {
        return text;
    }
    let mut effects: Vec<&WorkloadEffect> = simulation.bindings.iter().collect();
    effects.sort_by_key(|effect| effect.verdict != FailoverEffect::DoesNotFit);
    let header = ["NAMESPACE", "WORKLOAD", "REPLICAS", "WHAT", "TO", "WHY"].map(str::to_owned);
    let rows: Vec<[String; 6]> = std::iter::once(header).chain(effects.into_iter().map(row)).collect();
    text.push('\n');
    text.push_str(&aligned(&rows));
    if !simulation.gains.is_empty() {
        let gains = simulation.gains.iter().map(|(name, replicas)| format!("{name} +{replicas}"));
        let _ = writeln!(text, "\nReplicas: {}", gains.collect::<Vec<_>>().join(", "));
    }
    text
}

fn row(effect: &WorkloadEffect) -> [String; 6] {
    let what = match effect.verdict {
        FailoverEffect::Moves => "moves",
        FailoverEffect::Covered => "covered",
        FailoverEffect::Stays => "stays",
        FailoverEffect::DoesNotFit => "DOES NOT FIT",
    };
    let to = effect.to.iter().map(|target| match target.replicas {
        0 => target.name.clone(),
        replicas => format!("{} ({replicas})", target.name),
    });
    let to: Vec<String> = to.collect();
    [
        effect.subject.namespace.clone(),
        format!("{}/{}", effect.subject.kind, effect.subject.name),
        effect.replicas.to_string(),
        what.to_owned(),
        if to.is_empty() { "-".to_owned() } else { to.join(", ") },
        effect.reason.clone(),
    ]
}

fn aligned(rows: &[[String; 6]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 6] = std::array::from_fn(width);
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        let line = cells.collect::<Vec<_>>().join("   ");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
