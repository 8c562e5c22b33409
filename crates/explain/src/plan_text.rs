//! `plan` as text.

use std::fmt::Write;

use crate::place::{Action, What};
use crate::plan::ChangePlan;

/// Every template with its changes in each member, and a count at the end.
pub fn text(plan: &ChangePlan) -> String {
    let mut text = String::new();
    let mut counts = [0_usize; 4];
    for planned in &plan.templates {
        // Writing to a String never fails.
        let _ = writeln!(text, "{}", planned.subject);
        if !planned.outcome.policy.is_empty() {
            let _ = writeln!(text, "    by {}", planned.outcome.policy);
        }
        for action in &planned.outcome.actions {
            counts[action.what as usize] += 1;
            let _ = writeln!(text, "  {}", line(action));
        }
        for note in &planned.outcome.notes {
            let _ = writeln!(text, "  · {note}");
        }
        if !planned.outcome.problem.is_empty() {
            let _ = writeln!(text, "  ! {}", planned.outcome.problem);
            for reason in &planned.outcome.reasons {
                let _ = writeln!(text, "      {reason}");
            }
        }
    }
    for problem in &plan.problems {
        let _ = writeln!(text, "! {problem}");
    }
    for note in &plan.notes {
        let _ = writeln!(text, "Note: {note}.");
    }
    let [place, change, keep, remove] = counts;
    let failed = plan.problems.len() + plan.templates.iter().filter(|planned| !planned.outcome.is_ok()).count();
    let failed = if failed > 0 { format!(", {failed} with problems") } else { String::new() };
    let _ = writeln!(text, "\n{place} to place, {change} to change, {remove} to remove, {keep} unchanged{failed}");
    text
}

fn line(action: &Action) -> String {
    let (mark, verb) = match action.what {
        What::Place => ('+', "place in"),
        What::Change => ('~', "change in"),
        What::Keep => ('=', "keep in"),
        What::Remove => ('-', "remove from"),
    };
    let mut line = format!("{mark} {verb} {}", action.cluster);
    match (action.replicas_before, action.replicas_after) {
        (Some(before), Some(after)) if before != after => line.push_str(&format!(", replicas {before} → {after}")),
        (_, Some(after)) => line.push_str(&format!(", replicas {after}")),
        _ => {}
    }
    if !action.fields.is_empty() {
        line.push_str(&format!(": {}", action.fields.join(", ")));
    }
    if !action.problem.is_empty() {
        line.push_str(&format!(" ! {}", action.problem));
    }
    line
}
