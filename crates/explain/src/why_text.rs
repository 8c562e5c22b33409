//! `why` as text.

use std::fmt::Write;

use crate::document::State;
use crate::why::Why;

/// The verdict first, then every stage with its reasons.
pub fn text(why: &Why) -> String {
    let mut text = format!("{}: {}\n", why.subject, why.verdict);
    if let Some(next) = &why.next_step {
        let _ = writeln!(text, "Next: {next}");
    }
    text.push('\n');
    for stage in &why.stages {
        let mark = match stage.state {
            State::Done => "done",
            State::Waiting => "waits",
            State::Failed => "FAILED",
            State::Ahead => "-",
        };
        let since = stage.since.as_deref().map(|since| format!("  [{since}]")).unwrap_or_default();
        // Writing to a String never fails.
        let _ = writeln!(text, "{:<7} {:<11} {}{since}", mark, stage.name, stage.summary);
        for detail in &stage.details {
            let _ = writeln!(text, "{:<20}{detail}", "");
        }
    }
    text
}
