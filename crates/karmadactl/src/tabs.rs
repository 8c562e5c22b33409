//! Aligns tab-separated cells in columns as kubectl does.

/// Spacing of columns.
#[derive(Clone, Copy)]
pub struct Spacing {
    /// Minimum width of a column, including padding.
    pub width_min: usize,
    /// Spaces after the widest cell of a column.
    pub padding: usize,
    /// A column that continues after a gap keeps its width.
    pub remembers: bool,
}

/// Spacing of tables.
pub const TABLE: Spacing = Spacing { width_min: 6, padding: 3, remembers: true };
/// Spacing of descriptions.
pub const DESCRIPTION: Spacing = Spacing { width_min: 0, padding: 2, remembers: false };

/// Aligns runs of adjacent lines that share a column. The last cell of a line is not part of a column.
pub fn align(text: &str, spacing: Spacing) -> String {
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
    let mut out = Layout {
        lines: &lines,
        spacing,
        widths: Vec::new(),
        widest: Vec::new(),
        text: String::with_capacity(text.len() * 2),
    };
    out.lay(0, lines.len());
    out.text
}

/// Aligns lines incrementally: a column never gets narrower.
#[derive(Default)]
pub struct Running {
    widths: Vec<usize>,
}

impl Running {
    /// Aligns more lines.
    pub fn align(&mut self, text: &str) -> String {
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
        for line in &lines {
            self.widths.resize(self.widths.len().max(line.len()), TABLE.width_min);
            for (width, cell) in self.widths.iter_mut().zip(line) {
                *width = (*width).max(cell.chars().count() + TABLE.padding);
            }
        }
        let mut out = String::new();
        for line in &lines {
            for (at, cell) in line.iter().enumerate() {
                let is_last = at + 1 == line.len();
                let missing = self.widths[at].saturating_sub(cell.chars().count());
                out.push_str(cell);
                out.extend(std::iter::repeat_n(' ', if is_last { 0 } else { missing }));
            }
            out.push('\n');
        }
        out
    }
}

struct Layout<'a> {
    lines: &'a [Vec<&'a str>],
    spacing: Spacing,
    /// Width of the columns to the left.
    widths: Vec<usize>,
    /// Widths of all columns so far.
    widest: Vec<usize>,
    text: String,
}

impl Layout<'_> {
    fn lay(&mut self, start: usize, end: usize) {
        let column = self.widths.len();
        let has_cell = |line: &Vec<&str>| column + 1 < line.len();
        let mut written = start;
        let mut at = start;
        while at < end {
            if !has_cell(&self.lines[at]) {
                at += 1;
                continue;
            }
            self.write(written, at);
            let block_end = (at..end).find(|i| !has_cell(&self.lines[*i])).unwrap_or(end);
            let widest = self.lines[at..block_end].iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
            let width = self.remembered(column, (widest + self.spacing.padding).max(self.spacing.width_min));
            self.widths.push(width);
            self.lay(at, block_end);
            self.widths.pop();
            written = block_end;
            at = block_end;
        }
        self.write(written, end);
    }

    fn remembered(&mut self, column: usize, width: usize) -> usize {
        if !self.spacing.remembers {
            return width;
        }
        self.widest.resize(self.widest.len().max(column + 1), 0);
        self.widest[column] = self.widest[column].max(width);
        self.widest[column]
    }

    fn write(&mut self, start: usize, end: usize) {
        for line in &self.lines[start..end] {
            for (column, cell) in line.iter().enumerate() {
                self.text.push_str(cell);
                if let Some(width) = self.widths.get(column) {
                    let missing = width.saturating_sub(cell.chars().count());
                    self.text.extend(std::iter::repeat_n(' ', missing));
                }
            }
            self.text.push('\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let text = "NAME\tCLUSTER\tAGE\nnginx-1\tm1\t5s\na\tmember-two\t10m\n";
        let expected = "NAME      CLUSTER      AGE\nnginx-1   m1           5s\na         member-two   10m\n";
        assert_eq!(align(text, TABLE), expected);
    }

    #[test]
    fn columns_of_later_lines_keep_their_width() {
        let mut running = Running::default();
        assert_eq!(running.align("NAME\tCLUSTER\tAGE\n"), "NAME   CLUSTER   AGE\n");
        assert_eq!(running.align("nginx-123\tm1\t1s\n"), "nginx-123   m1        1s\n");
        assert_eq!(running.align("a\tm1\t2s\n"), "a           m1        2s\n");
    }

    #[test]
    fn a_line_without_columns_ends_the_table() {
        let text = "Name:\tnginx\nSpec:\n  Replicas:\t2\n  A:\tb\nKind:\tx\n";
        let expected = "Name:  nginx\nSpec:\n  Replicas:  2\n  A:         b\nKind:        x\n";
        assert_eq!(align(text, DESCRIPTION), expected);
    }
}
