//! Escaping of property names that are not CEL identifiers.

/// Literals and operators that look like names.
const KEYWORDS: [&str; 4] = ["true", "false", "null", "in"];

/// Words reserved by the language.
pub(crate) const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

const MARKS: [(&str, &str); 4] = [("underscores", "__"), ("dot", "."), ("dash", "-"), ("slash", "/")];

/// Reports whether a name can be used unescaped in an expression.
pub fn is_identifier(name: &str) -> bool {
    let bytes = name.as_bytes();
    let word = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
    let shaped = !bytes.is_empty() && bytes.iter().all(word) && !bytes[0].is_ascii_digit();
    shaped && !is_word(name)
}

/// A keyword or reserved word.
fn is_word(name: &str) -> bool {
    KEYWORDS.contains(&name) || RESERVED.contains(&name)
}

/// The identifier for a property name; `None` if expressions cannot refer to the name.
pub fn escape(name: &str) -> Option<String> {
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if is_word(name) {
        return Some(format!("__{name}__"));
    }
    let mut escaped = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        let mark = MARKS.iter().find(|(_, plain)| rest.starts_with(plain));
        if let Some((mark, plain)) = mark {
            escaped.push_str(&format!("__{mark}__"));
            rest = &rest[plain.len()..];
        } else if c == '_' || c.is_ascii_alphanumeric() {
            escaped.push(c);
            rest = &rest[1..];
        } else {
            return None;
        }
    }
    Some(escaped)
}

/// The property name of an identifier; `None` if no property has it.
pub fn unescape(escaped: &str) -> Option<String> {
    let mut name = String::with_capacity(escaped.len());
    let mut rest = escaped;
    while !rest.is_empty() {
        if let Some((mark, after)) = leading_mark(rest) {
            match MARKS.iter().find(|(known, _)| *known == mark) {
                Some((_, plain)) => name.push_str(plain),
                // A reserved word is escaped only as a whole name.
                None if is_word(mark) && mark.len() + 4 == escaped.len() => name.push_str(mark),
                None => return None,
            }
            rest = after;
        } else {
            let next = rest.chars().next()?;
            name.push(next);
            rest = &rest[next.len_utf8()..];
        }
    }
    Some(name)
}

/// Splits `__mark__rest` into mark and rest.
fn leading_mark(text: &str) -> Option<(&str, &str)> {
    let inner = text.strip_prefix("__")?;
    let end = inner.find('_').filter(|end| *end > 0)?;
    let after = inner[end..].strip_prefix("__")?;
    Some((&inner[..end], after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for (name, escaped) in [
            ("a", "a"),
            ("namespace", "__namespace__"),
            ("a-b", "a__dash__b"),
            ("a.b", "a__dot__b"),
            ("a/b", "a__slash__b"),
            ("a__b", "a__underscores__b"),
            ("a_b", "a_b"),
            ("x-prop", "x__dash__prop"),
            ("____", "__underscores____underscores__"),
        ] {
            assert_eq!(escape(name).as_deref(), Some(escaped), "{name}");
            assert_eq!(unescape(escaped).as_deref(), Some(name), "{escaped}");
        }
        for unreachable in ["", "1a", "a b", "a$"] {
            assert_eq!(escape(unreachable), None, "{unreachable}");
        }
        for nothing in ["__foo__", "a__for__b"] {
            assert_eq!(unescape(nothing), None, "{nothing}");
        }
    }
}
