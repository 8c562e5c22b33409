//! Lua patterns over bytes, with bounded work: the reference matcher can be made to run for years.

use super::deadline::Deadline;

/// As in the reference implementation.
const CAPTURES_MAX: usize = 32;
/// Nested matching uses the stack; later Lua versions stop at this depth too.
const DEPTH_MAX: usize = 200;
/// Steps between two checks of the deadline.
const STEPS_PER_LOOK: u32 = 4096;

/// The value of a capture: a part of the subject, or a position in it (counted from one).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capture {
    Part(usize, usize),
    Position(usize),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    pub start: usize,
    pub end: usize,
    pub captures: Vec<Capture>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Length {
    Open,
    Position,
    Closed(usize),
}

type MatchResult = Result<Option<usize>, String>;

/// The first match at or after `init`.
pub fn find(subject: &[u8], pattern: &[u8], init: usize, deadline: &Deadline) -> Result<Option<Match>, String> {
    let anchored = pattern.first() == Some(&b'^');
    let first = usize::from(anchored);
    let mut matcher = Matcher { subject, pattern, captures: Vec::new(), depth: 0, steps: 0, deadline };
    for start in init..=subject.len() {
        matcher.captures.clear();
        if let Some(end) = matcher.walk(start, first)? {
            let captures = matcher.finish()?;
            return Ok(Some(Match { start, end, captures }));
        }
        if anchored {
            break;
        }
    }
    Ok(None)
}

struct Matcher<'a> {
    subject: &'a [u8],
    pattern: &'a [u8],
    captures: Vec<(usize, Length)>,
    depth: usize,
    steps: u32,
    deadline: &'a Deadline,
}

impl Matcher<'_> {
    fn finish(&self) -> Result<Vec<Capture>, String> {
        let read = |(start, length): &(usize, Length)| match length {
            Length::Closed(length) => Ok(Capture::Part(*start, start + length)),
            Length::Position => Ok(Capture::Position(start + 1)),
            Length::Open => Err("unfinished capture".to_owned()),
        };
        self.captures.iter().map(read).collect()
    }

    fn tick(&mut self) -> Result<(), String> {
        self.steps += 1;
        if self.steps.is_multiple_of(STEPS_PER_LOOK) { self.deadline.check() } else { Ok(()) }
    }

    /// Matches the rest of the pattern at `s`; returns the end of the match.
    fn walk(&mut self, s: usize, p: usize) -> MatchResult {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err("pattern too complex".to_owned());
        }
        let result = self.walk_here(s, p);
        self.depth -= 1;
        result
    }

    fn walk_here(&mut self, mut s: usize, mut p: usize) -> MatchResult {
        loop {
            self.tick()?;
            let Some(&item) = self.pattern.get(p) else { return Ok(Some(s)) };
            match item {
                b'(' if self.pattern.get(p + 1) == Some(&b')') => return self.open(s, p + 2, Length::Position),
                b'(' => return self.open(s, p + 1, Length::Open),
                b')' => return self.close(s, p + 1),
                b'$' if p + 1 == self.pattern.len() => return Ok((s == self.subject.len()).then_some(s)),
                b'%' => match self.pattern.get(p + 1) {
                    Some(b'b') => match self.balance(s, p + 2)? {
                        Some(end) => (s, p) = (end, p + 4),
                        None => return Ok(None),
                    },
                    Some(b'f') => match self.frontier(s, p + 2)? {
                        Some(next) => p = next,
                        None => return Ok(None),
                    },
                    Some(digit) if digit.is_ascii_digit() => match self.back_reference(s, *digit)? {
                        Some(end) => (s, p) = (end, p + 2),
                        None => return Ok(None),
                    },
                    _ => match self.single(s, p)? {
                        Next::Here(next_s, next_p) => (s, p) = (next_s, next_p),
                        Next::Done(result) => return Ok(result),
                    },
                },
                _ => match self.single(s, p)? {
                    Next::Here(next_s, next_p) => (s, p) = (next_s, next_p),
                    Next::Done(result) => return Ok(result),
                },
            }
        }
    }

    /// One character class and its repetition.
    fn single(&mut self, s: usize, p: usize) -> Result<Next, String> {
        let end = self.class_end(p)?;
        let here = self.single_matches(s, p, end);
        match self.pattern.get(end) {
            Some(b'?') => {
                if here && let Some(found) = self.walk(s + 1, end + 1)? {
                    return Ok(Next::Done(Some(found)));
                }
                Ok(Next::Here(s, end + 1))
            }
            Some(b'*') => self.longest(s, p, end).map(Next::Done),
            Some(b'+') if here => self.longest(s + 1, p, end).map(Next::Done),
            Some(b'+') => Ok(Next::Done(None)),
            Some(b'-') => self.shortest(s, p, end).map(Next::Done),
            _ if here => Ok(Next::Here(s + 1, end)),
            _ => Ok(Next::Done(None)),
        }
    }

    fn longest(&mut self, s: usize, p: usize, end: usize) -> MatchResult {
        let mut count = 0;
        while self.single_matches(s + count, p, end) {
            count += 1;
            self.tick()?;
        }
        loop {
            if let Some(found) = self.walk(s + count, end + 1)? {
                return Ok(Some(found));
            }
            if count == 0 {
                return Ok(None);
            }
            count -= 1;
        }
    }

    fn shortest(&mut self, mut s: usize, p: usize, end: usize) -> MatchResult {
        loop {
            if let Some(found) = self.walk(s, end + 1)? {
                return Ok(Some(found));
            }
            if !self.single_matches(s, p, end) {
                return Ok(None);
            }
            s += 1;
        }
    }

    fn open(&mut self, s: usize, p: usize, length: Length) -> MatchResult {
        if self.captures.len() >= CAPTURES_MAX {
            return Err("too many captures".to_owned());
        }
        self.captures.push((s, length));
        let found = self.walk(s, p)?;
        if found.is_none() {
            self.captures.pop();
        }
        Ok(found)
    }

    fn close(&mut self, s: usize, p: usize) -> MatchResult {
        let open = self.captures.iter().rposition(|(_, length)| *length == Length::Open);
        let index = open.ok_or_else(|| "invalid pattern capture".to_owned())?;
        self.captures[index].1 = Length::Closed(s - self.captures[index].0);
        let found = self.walk(s, p)?;
        if found.is_none() {
            self.captures[index].1 = Length::Open;
        }
        Ok(found)
    }

    fn balance(&mut self, s: usize, p: usize) -> MatchResult {
        let (Some(&open), Some(&close)) = (self.pattern.get(p), self.pattern.get(p + 1)) else {
            return Err("unbalanced pattern".to_owned());
        };
        if self.subject.get(s) != Some(&open) {
            return Ok(None);
        }
        let mut level = 1;
        for (offset, &byte) in self.subject[s + 1..].iter().enumerate() {
            if byte == close {
                level -= 1;
                if level == 0 {
                    return Ok(Some(s + offset + 2));
                }
            } else if byte == open {
                level += 1;
            }
        }
        Ok(None)
    }

    fn frontier(&mut self, s: usize, p: usize) -> MatchResult {
        if self.pattern.get(p) != Some(&b'[') {
            return Err("missing '[' after '%f' in pattern".to_owned());
        }
        let end = self.class_end(p)?;
        let previous = if s == 0 { 0 } else { self.subject[s - 1] };
        let current = self.subject.get(s).copied().unwrap_or(0);
        let crossed = !self.set_matches(previous, p, end - 1) && self.set_matches(current, p, end - 1);
        Ok(crossed.then_some(end))
    }

    fn back_reference(&self, s: usize, digit: u8) -> MatchResult {
        let capture = usize::from(digit).checked_sub(usize::from(b'1')).and_then(|index| self.captures.get(index));
        let Some((start, Length::Closed(length))) = capture else { return Err("invalid capture index".to_owned()) };
        let known = &self.subject[*start..start + length];
        Ok(self.subject[s..].starts_with(known).then_some(s + length))
    }

    /// The end of the class that starts at `p`.
    fn class_end(&self, p: usize) -> Result<usize, String> {
        match self.pattern[p] {
            b'%' if p + 1 >= self.pattern.len() => Err("malformed pattern (ends with '%')".to_owned()),
            b'%' => Ok(p + 2),
            b'[' => {
                let missing = || "malformed pattern (missing ']')".to_owned();
                let mut at = if self.pattern.get(p + 1) == Some(&b'^') { p + 2 } else { p + 1 };
                let first = at;
                loop {
                    match self.pattern.get(at).ok_or_else(missing)? {
                        b']' if at > first => return Ok(at + 1),
                        b'%' => at += 2,
                        _ => at += 1,
                    }
                }
            }
            _ => Ok(p + 1),
        }
    }

    fn single_matches(&self, s: usize, p: usize, end: usize) -> bool {
        let Some(&byte) = self.subject.get(s) else { return false };
        match self.pattern[p] {
            b'.' => true,
            b'%' => in_class(byte, self.pattern[p + 1]),
            b'[' => self.set_matches(byte, p, end - 1),
            literal => literal == byte,
        }
    }

    /// Reports whether the byte is in the set between `[` at `p` and `]` at `close`.
    fn set_matches(&self, byte: u8, p: usize, close: usize) -> bool {
        let negated = self.pattern[p + 1] == b'^';
        let mut at = if negated { p + 2 } else { p + 1 };
        let mut found = false;
        while at < close {
            if self.pattern[at] == b'%' {
                found |= in_class(byte, self.pattern[at + 1]);
                at += 2;
            } else if self.pattern[at + 1] == b'-' && at + 2 < close {
                found |= (self.pattern[at]..=self.pattern[at + 2]).contains(&byte);
                at += 3;
            } else {
                found |= self.pattern[at] == byte;
                at += 1;
            }
        }
        found != negated
    }
}

enum Next {
    Here(usize, usize),
    Done(Option<usize>),
}

fn in_class(byte: u8, class: u8) -> bool {
    let matches = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => byte.is_ascii_whitespace() || byte == 0x0b,
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    matches != class.is_ascii_uppercase()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::environment::ScriptEnvironment;

    fn found(subject: &str, pattern: &str) -> Result<Option<Vec<String>>, String> {
        let deadline = Deadline::new(ScriptEnvironment::for_tests().stopwatch);
        deadline.start(Duration::from_secs(60));
        let found = find(subject.as_bytes(), pattern.as_bytes(), 0, &deadline)?;
        Ok(found.map(|found| {
            let whole = subject[found.start..found.end].to_owned();
            let captures = found.captures.iter().map(|capture| match capture {
                Capture::Part(start, end) => subject[*start..*end].to_owned(),
                Capture::Position(position) => format!("@{position}"),
            });
            std::iter::once(whole).chain(captures).collect()
        }))
    }

    #[test]
    fn patterns_match_as_in_lua() {
        let cases: &[(&str, &str, Option<&[&str]>)] = &[
            ("hello world", "o w", Some(&["o w"])),
            ("hello", "l+", Some(&["ll"])),
            ("hello", "l-o", Some(&["llo"])),
            ("hello", "^ello", None),
            ("hello", "lo$", Some(&["lo"])),
            ("a$b", "a$b", Some(&["a$b"])),
            ("key = value", "^(%w+)%s*=%s*(%w+)$", Some(&["key = value", "key", "value"])),
            ("512Mi", "^(%d+%.?%d*)([A-Za-z]*)$", Some(&["512Mi", "512", "Mi"])),
            ("1.5g", "(%d+)%.(%d+)(.*)", Some(&["1.5g", "1", "5", "g"])),
            ("hello", "()ll()", Some(&["ll", "@3", "@5"])),
            ("f(a(b)c)d", "%b()", Some(&["(a(b)c)"])),
            ("THE (quick) fox", "%f[%a]%a+%f[%A]", Some(&["THE"])),
            ("abcabc", "(abc)%1", Some(&["abcabc", "abc"])),
            ("x-y", "[%w-]+", Some(&["x-y"])),
            ("]x", "[]]", Some(&["]"])),
            ("abc", "[^a]", Some(&["b"])),
            ("abc", "b?c", Some(&["bc"])),
            ("abc", "x*", Some(&[""])),
            ("", "", Some(&[""])),
            ("a.b", "%.", Some(&["."])),
            ("ümlaut", "%a+", Some(&["mlaut"])),
        ];
        for (subject, pattern, expected) in cases {
            let expected = expected.map(|parts| parts.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>());
            assert_eq!(found(subject, pattern), Ok(expected), "{pattern} in {subject}");
        }
    }

    #[test]
    fn invalid_patterns_are_reported() {
        for (pattern, expected) in [
            ("[a", "malformed pattern (missing ']')"),
            ("%", "malformed pattern (ends with '%')"),
            ("(a", "unfinished capture"),
            ("a)", "invalid pattern capture"),
            ("%1", "invalid capture index"),
            ("%fa", "missing '[' after '%f' in pattern"),
            ("%b(", "unbalanced pattern"),
        ] {
            assert_eq!(found("a", pattern), Err(expected.to_owned()), "{pattern}");
        }
        assert_eq!(found(&"a".repeat(500), &"a?".repeat(500)), Err("pattern too complex".to_owned()));
    }

    #[test]
    fn a_pattern_that_would_run_for_years_is_stopped() {
        let deadline = Deadline::new(ScriptEnvironment::for_tests().stopwatch);
        deadline.start(Duration::from_millis(20));
        let began = Instant::now();
        let subject = "a".repeat(5_000);
        let result = find(subject.as_bytes(), b".-.-.-.-.-.-b", 0, &deadline);
        assert!(result.is_err(), "{result:?}");
        assert!(began.elapsed() < Duration::from_secs(5));
    }
}
