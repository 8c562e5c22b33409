//! Patterns of schemas: Go's regular expressions, compiled once per schema by an engine with slightly different
//! syntax.

use std::sync::OnceLock;

use regex::{Regex, RegexBuilder};

/// A pattern compiled at first use and shared by later requests.
#[derive(Clone, Debug, Default)]
pub struct CompiledPattern(OnceLock<Result<Regex, String>>);

/// Maximum compiled size of a pattern; larger ones could exhaust memory.
const COMPILED_BYTES_MAX: usize = 4 << 20;

impl CompiledPattern {
    pub fn is_match(&self, pattern: &str, text: &str) -> Result<bool, String> {
        self.0.get_or_init(|| compile(pattern)).as_ref().map(|regex| regex.is_match(text)).map_err(Clone::clone)
    }
}

/// Compiles a pattern with Go's semantics.
pub fn compile(pattern: &str) -> Result<Regex, String> {
    RegexBuilder::new(&translate(pattern))
        .size_limit(COMPILED_BYTES_MAX)
        .build()
        .map_err(|error| error.to_string().lines().last().unwrap_or_default().to_owned())
}

/// In Go `\d`, `\w`, `\s` and `\b` are ASCII only, and a bracket or ampersand inside a class is a plain character.
fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut chars = pattern.chars().peekable();
    let mut class_length: Option<usize> = None;
    while let Some(c) = chars.next() {
        match (c, class_length) {
            ('\\', _) => {
                let Some(escaped) = chars.next() else {
                    out.push('\\');
                    continue;
                };
                push_escape(&mut out, escaped, class_length.is_some());
            }
            ('[', None) => {
                out.push('[');
                class_length = Some(0);
                if chars.peek() == Some(&'^') {
                    out.extend(chars.next());
                }
                continue;
            }
            (']', Some(0)) => out.push_str("\\]"),
            (']', Some(_)) => {
                out.push(']');
                class_length = None;
            }
            ('[', Some(_)) if chars.peek() == Some(&':') => {
                out.push('[');
                for inner in chars.by_ref() {
                    out.push(inner);
                    if inner == ']' {
                        break;
                    }
                }
            }
            ('[' | '&' | '~', Some(_)) => {
                out.push('\\');
                out.push(c);
            }
            _ => out.push(c),
        }
        class_length = class_length.map(|length| length + 1);
    }
    out
}

fn push_escape(out: &mut String, escaped: char, in_class: bool) {
    match (escaped, in_class) {
        ('d', true) => out.push_str("0-9"),
        ('w', true) => out.push_str("0-9A-Za-z_"),
        ('s', true) => out.push_str("\\t\\n\\x0c\\r "),
        ('d', false) => out.push_str("[0-9]"),
        ('w', false) => out.push_str("[0-9A-Za-z_]"),
        ('s', false) => out.push_str("[\\t\\n\\x0c\\r ]"),
        ('D', _) => out.push_str("[^0-9]"),
        ('W', _) => out.push_str("[^0-9A-Za-z_]"),
        ('S', _) => out.push_str("[^\\t\\n\\x0c\\r ]"),
        ('b', false) => out.push_str("(?-u:\\b)"),
        _ => {
            out.push('\\');
            out.push(escaped);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_go() {
        let cases = [
            (r"^\d+$", "12", true),
            (r"^\d+$", "\u{0663}", false),
            (r"^[\d-]+$", "1-2", true),
            (r"^[[&]+$", "[&", true),
            (r"^[]a]+$", "]a", true),
            (r"^[[:alpha:]]+$", "ab", true),
            (r"^[a-z\/]+$", "a/b", true),
            (r"^[^\s]+$", "a b", false),
            (r"^\S+$", "ab", true),
            (r"^(http|https)://.*$", "https://x", true),
        ];
        for (pattern, text, expected) in cases {
            let compiled = CompiledPattern::default();
            assert_eq!(compiled.is_match(pattern, text), Ok(expected), "{pattern} on {text}");
        }
        assert!(compile("a{1000}{1000}{1000}").is_err());
        assert!(compile("(").is_err());
    }
}
