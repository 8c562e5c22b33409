//! A figure of both sides with the ratio and an optional target.

use std::fmt::Write;

/// Smaller differences are noise.
const NOISE: f64 = 1.05;

pub struct Row {
    pub what: String,
    pub unit: &'static str,
    pub flotilla: f64,
    pub other: Option<f64>,
    /// Factor by which flotilla is better.
    pub ratio: Option<f64>,
    pub target: Option<RowTarget>,
}

#[derive(Clone, Copy)]
pub enum RowTarget {
    /// At least this factor better.
    Ratio(f64),
    /// Ours alone, below this.
    Below(f64),
    /// Ours alone, at least this.
    AtLeast(f64),
}

#[derive(Clone, Copy)]
pub enum Better {
    Higher,
    Lower,
}

impl Row {
    pub fn new(
        what: impl Into<String>,
        unit: &'static str,
        better: Better,
        flotilla: f64,
        other: Option<f64>,
        target: Option<RowTarget>,
    ) -> Self {
        // A ratio to zero would be meaningless.
        let ratio = other.filter(|other| *other > 0.0 && flotilla > 0.0).map(|other| match better {
            Better::Higher => flotilla / other,
            Better::Lower => other / flotilla,
        });
        Self { what: what.into(), unit, flotilla, other, ratio, target }
    }

    pub fn met(&self) -> Option<bool> {
        match self.target? {
            RowTarget::Ratio(least) => Some(self.ratio? >= least),
            RowTarget::Below(limit) => Some(self.flotilla < limit),
            RowTarget::AtLeast(least) => Some(self.flotilla >= least),
        }
    }

    pub fn is_behind(&self) -> bool {
        self.ratio.is_some_and(|ratio| ratio * NOISE < 1.0)
    }

    pub fn is_level(&self) -> bool {
        self.ratio.is_some_and(|ratio| ratio * NOISE >= 1.0 && ratio < NOISE)
    }

    fn verdict(&self) -> &'static str {
        match self.met() {
            Some(true) => "met",
            Some(false) => "**not met**",
            None if self.is_behind() => "**behind**",
            None => "",
        }
    }

    fn target_text(&self) -> String {
        match self.target {
            Some(RowTarget::Ratio(least)) => format!("≥ {least:.0}×"),
            Some(RowTarget::Below(limit)) => format!("< {} {}", number(limit), self.unit),
            Some(RowTarget::AtLeast(least)) => format!("≥ {} {}", number(least), self.unit),
            None => String::new(),
        }
    }

    pub fn line(&self) -> String {
        let figure = |value: f64| format!("{} {}", number(value), self.unit).trim_end().to_owned();
        format!(
            "| {} | {} | {} | {} | {} | {} |",
            self.what,
            figure(self.flotilla),
            self.other.map_or("—".to_owned(), figure),
            self.ratio.map_or("—".to_owned(), |ratio| format!("{ratio:.1}×")),
            self.target_text(),
            self.verdict()
        )
    }
}

pub fn table(rows: &[Row], other: &str) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut text = format!("|  | flotilla | {other} | times better | target |  |\n|---|---:|---:|---:|---:|---|\n");
    for row in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", row.line());
    }
    text
}

pub fn number(value: f64) -> String {
    match value {
        v if v >= 1000.0 => grouped(v.round() as usize),
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

pub fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Better, Row, RowTarget, grouped, number};

    #[test]
    fn a_target_is_met_only_by_the_better_side() {
        let check = |better, ours, theirs, target, expected| {
            let row = Row::new("x", "s", better, ours, theirs, Some(target));
            assert_eq!(row.met(), expected, "{ours} against {theirs:?}");
        };
        check(Better::Higher, 5000.0, Some(1000.0), RowTarget::Ratio(5.0), Some(true));
        check(Better::Higher, 4999.0, Some(1000.0), RowTarget::Ratio(5.0), Some(false));
        check(Better::Lower, 10.0, Some(60.0), RowTarget::Ratio(5.0), Some(true));
        check(Better::Lower, 60.0, Some(10.0), RowTarget::Ratio(5.0), Some(false));
        check(Better::Lower, 0.2, None, RowTarget::Below(1.0), Some(true));
        check(Better::Lower, 0.2, None, RowTarget::Ratio(5.0), None);
        check(Better::Higher, 0.89, None, RowTarget::AtLeast(0.9), Some(false));
    }

    #[test]
    fn a_row_names_the_side_that_is_behind() {
        let check = |ours, theirs, behind, level| {
            let row = Row::new("x", "s", Better::Lower, ours, Some(theirs), None);
            assert_eq!((row.is_behind(), row.is_level()), (behind, level), "{ours} against {theirs}");
            assert_eq!(row.line().contains("behind"), behind);
        };
        check(1.0, 3.0, false, false);
        check(1.0, 1.02, false, true);
        check(1.0, 0.98, false, true);
        check(3.0, 1.0, true, false);
    }

    #[test]
    fn figures_are_short_and_grouped() {
        assert_eq!(grouped(100_000), "100,000");
        assert_eq!(grouped(999), "999");
        assert_eq!(number(1234.5), "1,235");
        assert_eq!(number(0.1234), "0.12");
    }
}
