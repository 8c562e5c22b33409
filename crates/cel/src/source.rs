//! Source text with its line table, and compile errors formatted as in Kubernetes.

use std::fmt;

/// More errors are counted, not shown.
const ERRORS_SHOWN_MAX: usize = 100;
/// Longer lines are not repeated below the error.
const SNIPPET_BYTES_MAX: usize = 16_384;

/// An expression split into code points; every position in this crate is a code point offset into it.
#[derive(Debug, Clone)]
pub(crate) struct SourceText {
    pub(crate) chars: Vec<char>,
    line_starts: Vec<usize>,
}

impl SourceText {
    pub(crate) fn new(text: &str) -> Self {
        let chars: Vec<char> = text.chars().collect();
        let mut line_starts = vec![0];
        line_starts.extend(chars.iter().enumerate().filter(|(_, c)| **c == '\n').map(|(at, _)| at + 1));
        Self { chars, line_starts }
    }

    /// One-based line and zero-based column of an offset.
    pub(crate) fn location(&self, offset: usize) -> (usize, usize) {
        let line = self.line_starts.partition_point(|start| *start <= offset);
        (line, offset - self.line_starts[line - 1])
    }

    fn line(&self, line: usize) -> String {
        let start = self.line_starts[line - 1];
        let end = self.line_starts.get(line).map_or(self.chars.len(), |next| next - 1);
        self.chars[start..end].iter().collect()
    }
}

/// One error of the parser or the type checker, at a code point offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Issue {
    pub(crate) offset: usize,
    pub(crate) message: String,
}

impl Issue {
    pub(crate) fn new(offset: usize, message: impl Into<String>) -> Self {
        Self { offset, message: message.into() }
    }
}

/// The errors of an expression, one `ERROR: <input>:LINE:COLUMN: …` block each.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{display}")]
pub struct CompileError {
    display: String,
}

impl CompileError {
    pub(crate) fn of_issues(source: &SourceText, mut issues: Vec<Issue>) -> Self {
        issues.sort_by_key(|issue| issue.offset);
        let mut blocks: Vec<String> =
            issues.iter().take(ERRORS_SHOWN_MAX).map(|issue| show_issue(source, issue)).collect();
        if issues.len() > ERRORS_SHOWN_MAX {
            blocks.push(format!("{} more errors were truncated", issues.len() - ERRORS_SHOWN_MAX));
        }
        Self { display: blocks.join("\n") }
    }

    /// An error without a position in the source, such as an expression over the size limit.
    pub(crate) fn without_place(message: impl fmt::Display) -> Self {
        Self { display: format!("ERROR: <input>:-1:0: {message}") }
    }

    /// An error found while making the program runnable, after type checking succeeded.
    pub(crate) fn of_program(message: impl fmt::Display) -> Self {
        Self { display: format!("program instantiation failed: {message}") }
    }

    /// Reports whether the expression was well-typed but a constant part of it fails when evaluated.
    pub fn is_program_failure(&self) -> bool {
        self.display.starts_with("program instantiation failed: ")
    }
}

fn show_issue(source: &SourceText, issue: &Issue) -> String {
    let (line, column) = source.location(issue.offset);
    let mut shown = format!("ERROR: <input>:{line}:{}: {}", column + 1, issue.message);
    let snippet = source.line(line).replace('\t', " ");
    if snippet.len() > SNIPPET_BYTES_MAX {
        return shown;
    }
    // Wide marks below wide characters keep the caret aligned.
    let mut pointer: String =
        snippet.chars().take(column).map(|c| if c.len_utf8() > 1 { '\u{ff0e}' } else { '.' }).collect();
    let marked = snippet.chars().nth(column);
    pointer.push(if marked.is_some_and(|c| c.len_utf8() > 1) { '\u{ff3e}' } else { '^' });
    shown.push_str(&format!("\n | {snippet}\n | {pointer}"));
    shown
}
