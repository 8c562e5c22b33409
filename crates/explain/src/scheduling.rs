//! The scheduler's reasons as text.

use scheduler::Explanation;
use scheduler::explanation::{Attempt, Candidate, Division, Refusal};

/// Clusters listed one by one; beyond this only their number is printed.
const LISTED_MAX: usize = 50;

/// One line per fact, in the scheduler's order.
pub fn lines(explanation: &Explanation) -> Vec<String> {
    let mut lines = Vec::new();
    for attempt in &explanation.attempts {
        if !attempt.affinity_name.is_empty() {
            lines.push(format!("affinity group {}:", attempt.affinity_name));
        }
        attempt_lines(attempt, &mut lines);
    }
    lines
}

fn attempt_lines(attempt: &Attempt, lines: &mut Vec<String>) {
    let left_out = attempt.left_out.iter().map(|left_out| {
        let reasons: Vec<String> = left_out.reasons.iter().map(refusal).collect();
        format!("{} is excluded: {}", left_out.cluster, reasons.join("; "))
    });
    push_some(left_out, attempt.left_out.len(), "clusters are excluded", lines);
    push_some(attempt.candidates.iter().map(candidate), attempt.candidates.len(), "candidates", lines);
    if let Some(selection) = &attempt.selection {
        for group in &selection.groups {
            let verdict = if group.is_chosen { "chosen" } else { "not chosen" };
            lines.push(format!("group {}: {} clusters, score {}, {verdict}", group.name, group.clusters, group.score));
        }
        lines.push(format!("selected by {}: {}", selection.rule, joined(&selection.clusters)));
    }
    for division in &attempt.divisions {
        push_division(division, lines);
    }
    if !attempt.error.is_empty() {
        lines.push(format!("failed: {}", attempt.error));
    }
}

/// Not every reason has a plugin: a cluster that is being removed is not filtered.
fn refusal(refusal: &Refusal) -> String {
    match refusal.plugin.as_str() {
        "" => refusal.message.clone(),
        plugin => format!("{} ({plugin})", refusal.message),
    }
}

fn push_some(all: impl Iterator<Item = String>, count: usize, what: &str, lines: &mut Vec<String>) {
    lines.extend(all.take(LISTED_MAX));
    if count > LISTED_MAX {
        lines.push(format!("… {count} {what} in all"));
    }
}

fn candidate(candidate: &Candidate) -> String {
    let scores: Vec<String> = candidate.scores.iter().map(|s| format!("{} {}", s.plugin, s.score)).collect();
    let estimates: Vec<String> =
        candidate.estimates.iter().map(|e| format!("{} estimates {}", e.estimator, e.replicas)).collect();
    let mut line = format!("{} is a candidate", candidate.cluster);
    if !scores.is_empty() {
        line.push_str(&format!("; scores: {}", scores.join(", ")));
    }
    if !estimates.is_empty() {
        line.push_str(&format!("; capacity for {} ({})", candidate.allocatable, estimates.join(", ")));
    }
    if candidate.reserved > 0 {
        line.push_str(&format!("; {} reserved for others", candidate.reserved));
    }
    line
}

fn push_division(division: &Division, lines: &mut Vec<String>) {
    let result: Vec<String> = division.result.iter().map(|t| format!("{} {}", t.name, t.replicas)).collect();
    let weights: Vec<String> = division.weights.iter().map(|w| format!("{} {}", w.cluster, w.weight)).collect();
    let mut line = format!("{}: {}", division.strategy, division.step);
    if division.replicas > 0 {
        line.push_str(&format!("; {} replicas", division.replicas));
    }
    if !weights.is_empty() {
        line.push_str(&format!("; weights {}", joined(&weights)));
    }
    line.push_str(&format!(" → {}", joined(&result)));
    lines.push(line);
}

fn joined(items: &[String]) -> String {
    if items.is_empty() { "none".to_owned() } else { items.join(", ") }
}
