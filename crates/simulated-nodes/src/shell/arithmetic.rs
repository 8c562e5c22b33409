//! `$((…))`: integers with the usual operators.

/// `None` if it is not a valid expression. Names are variables; unset ones are zero.
pub fn evaluate(text: &str, value: &dyn Fn(&str) -> Option<String>) -> Option<i64> {
    let mut reader = Reader { rest: text, value, depth: 0 };
    let result = reader.level(0)?;
    reader.skip_space();
    reader.rest.is_empty().then_some(result)
}

/// Maximum nesting of parentheses.
const DEPTH_MAX: usize = 50;

const LEVELS: &[&[&str]] = &[&["||"], &["&&"], &["==", "!="], &["<=", ">=", "<", ">"], &["+", "-"], &["*", "/", "%"]];

struct Reader<'a> {
    rest: &'a str,
    value: &'a dyn Fn(&str) -> Option<String>,
    depth: usize,
}

impl Reader<'_> {
    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn level(&mut self, level: usize) -> Option<i64> {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.level(level + 1)?;
        loop {
            self.skip_space();
            let Some(operator) = operators.iter().find(|operator| self.rest.starts_with(**operator)) else {
                return Some(left);
            };
            self.rest = &self.rest[operator.len()..];
            let right = self.level(level + 1)?;
            left = apply(operator, left, right)?;
        }
    }

    fn unary(&mut self) -> Option<i64> {
        self.skip_space();
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return None;
        }
        let result = if let Some(rest) = self.rest.strip_prefix('-') {
            self.rest = rest;
            self.unary()?.checked_neg()
        } else if let Some(rest) = self.rest.strip_prefix('!') {
            self.rest = rest;
            self.unary().map(|value| i64::from(value == 0))
        } else if let Some(rest) = self.rest.strip_prefix('(') {
            self.rest = rest;
            let inner = self.level(0)?;
            self.skip_space();
            self.rest = self.rest.strip_prefix(')')?;
            Some(inner)
        } else {
            self.atom()
        };
        self.depth -= 1;
        result
    }

    fn atom(&mut self) -> Option<i64> {
        self.rest = self.rest.strip_prefix('$').unwrap_or(self.rest);
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            return word.parse().ok();
        }
        if word.is_empty() {
            return None;
        }
        (self.value)(word).unwrap_or_default().trim().parse().ok().or(Some(0))
    }
}

fn apply(operator: &str, left: i64, right: i64) -> Option<i64> {
    match operator {
        "+" => left.checked_add(right),
        "-" => left.checked_sub(right),
        "*" => left.checked_mul(right),
        "/" => left.checked_div(right),
        "%" => left.checked_rem(right),
        "==" => Some(i64::from(left == right)),
        "!=" => Some(i64::from(left != right)),
        "<" => Some(i64::from(left < right)),
        "<=" => Some(i64::from(left <= right)),
        ">" => Some(i64::from(left > right)),
        ">=" => Some(i64::from(left >= right)),
        "&&" => Some(i64::from(left != 0 && right != 0)),
        _ => Some(i64::from(left != 0 || right != 0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_evaluated() {
        let value = |name: &str| (name == "i").then(|| "7".to_owned());
        let cases = [
            ("1+2*3", Some(7)),
            ("(1+2)*3", Some(9)),
            ("$i + 1", Some(8)),
            ("i%4", Some(3)),
            ("unset", Some(0)),
            ("-3 - -4", Some(1)),
            ("i >= 7 && 1", Some(1)),
            ("1/0", None),
            ("1+", None),
            ("", None),
            ("9223372036854775807+1", None),
        ];
        for (text, expected) in cases {
            assert_eq!(evaluate(text, &value), expected, "{text:?}");
        }
        assert_eq!(evaluate(&"(".repeat(10_000), &value), None);
    }
}
