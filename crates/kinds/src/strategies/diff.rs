//! The difference of two objects as text, for messages about immutable fields.

const CONTEXT: usize = 3;
/// With more lines on both sides the common part is not computed, to bound the work.
const CELLS_MAX: usize = 4_000_000;

/// A unified diff of two texts.
pub fn unified(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let lines = compare(&old, &new);
    let mut out = String::new();
    let mut at = 0;
    while let Some(first) = (at..lines.len()).find(|i| lines[*i].0 != ' ') {
        let start = first.saturating_sub(CONTEXT).max(at);
        let mut end = first + 1;
        // A hunk continues while the next change is close enough to share its context.
        while let Some(next) = (end..lines.len().min(end + 2 * CONTEXT + 1)).find(|i| lines[*i].0 != ' ') {
            end = next + 1;
        }
        let end = (end + CONTEXT).min(lines.len());
        let count = |range: std::ops::Range<usize>, mark: char| {
            lines[range].iter().filter(|(m, _)| *m == ' ' || *m == mark).count()
        };
        out.push_str(&format!(
            "@@ -{},{} +{},{} @@\n",
            count(0..start, '-') + 1,
            count(start..end, '-'),
            count(0..start, '+') + 1,
            count(start..end, '+')
        ));
        for (mark, text) in &lines[start..end] {
            out.push(*mark);
            out.push_str(text);
            out.push('\n');
        }
        at = end;
    }
    out
}

/// Every line of both sides, marked ` `, `-` or `+`.
fn compare<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<(char, &'a str)> {
    let prefix = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let suffix = old[prefix..].iter().rev().zip(new[prefix..].iter().rev()).take_while(|(a, b)| a == b).count();
    let (a, b) = (&old[prefix..old.len() - suffix], &new[prefix..new.len() - suffix]);
    let mut lines: Vec<(char, &str)> = old[..prefix].iter().map(|l| (' ', *l)).collect();
    if a.len().saturating_mul(b.len()) > CELLS_MAX {
        lines.extend(a.iter().map(|l| ('-', *l)));
        lines.extend(b.iter().map(|l| ('+', *l)));
    } else {
        lines.extend(compare_middle(a, b));
    }
    lines.extend(old[old.len() - suffix..].iter().map(|l| (' ', *l)));
    lines
}

fn compare_middle<'a>(a: &[&'a str], b: &[&'a str]) -> Vec<(char, &'a str)> {
    let width = b.len() + 1;
    let mut common = vec![0u32; (a.len() + 1) * width];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            common[i * width + j] = if a[i] == b[j] {
                common[(i + 1) * width + j + 1] + 1
            } else {
                common[(i + 1) * width + j].max(common[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j, mut lines) = (0, 0, Vec::new());
    while i < a.len() || j < b.len() {
        if i < a.len() && j < b.len() && a[i] == b[j] {
            lines.push((' ', a[i]));
            (i, j) = (i + 1, j + 1);
        } else if i < a.len() && (j == b.len() || common[(i + 1) * width + j] >= common[i * width + j + 1]) {
            lines.push(('-', a[i]));
            i += 1;
        } else {
            lines.push(('+', b[j]));
            j += 1;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_shown_with_its_neighbours() {
        let (old, new) = ("a\nb\nc\nd\ne\nf\ng\nh", "a\nb\nc\nd\nx\nf\ng\nh");
        assert_eq!(unified(old, new), "@@ -2,7 +2,7 @@\n b\n c\n d\n-e\n+x\n f\n g\n h\n");
    }
}
