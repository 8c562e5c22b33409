//! YAML in kubectl's style: keys sorted, lists not indented, strings quoted only where necessary.

use serde_json::{Map, Value};

/// One document, ending in a newline.
pub fn to_string(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Object(map) if !map.is_empty() => write_map(&mut out, map, 0),
        Value::Array(items) if !items.is_empty() => write_list(&mut out, items, 0),
        scalar => {
            write_scalar(&mut out, scalar, 0);
            out.push('\n');
        }
    }
    out
}

fn write_map(out: &mut String, map: &Map<String, Value>, indent: usize) {
    let mut entries: Vec<(&String, &Value)> = map.iter().collect();
    entries.sort_by_key(|(key, _)| key.as_str());
    for (index, (key, value)) in entries.into_iter().enumerate() {
        if index > 0 {
            pad(out, indent);
        }
        write_text(out, key, 0, true);
        out.push(':');
        write_member(out, value, indent);
    }
}

/// The value of a key: on the same line if short, below it otherwise.
fn write_member(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            out.push('\n');
            pad(out, indent + 2);
            write_map(out, map, indent + 2);
        }
        Value::Array(items) if !items.is_empty() => {
            out.push('\n');
            pad(out, indent);
            write_list(out, items, indent);
        }
        scalar => {
            out.push(' ');
            write_scalar(out, scalar, indent + 2);
            out.push('\n');
        }
    }
}

fn write_list(out: &mut String, items: &[Value], indent: usize) {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            pad(out, indent);
        }
        out.push_str("- ");
        match item {
            Value::Object(map) if !map.is_empty() => write_map(out, map, indent + 2),
            Value::Array(items) if !items.is_empty() => write_list(out, items, indent + 2),
            scalar => {
                write_scalar(out, scalar, indent + 2);
                out.push('\n');
            }
        }
    }
}

fn write_scalar(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::String(text) => write_text(out, text, indent, false),
        Value::Object(_) => out.push_str("{}"),
        Value::Array(_) => out.push_str("[]"),
        other => out.push_str(&other.to_string()),
    }
}

fn write_text(out: &mut String, text: &str, indent: usize, is_key: bool) {
    if text.contains('\n') && !is_key && can_be_literal(text) {
        write_literal(out, text, indent);
    } else if text.contains(is_invisible) || means_something_else(text) {
        write_quoted(out, text);
    } else if needs_quotes(text) {
        out.push('\'');
        out.push_str(&text.replace('\'', "''"));
        out.push('\'');
    } else {
        out.push_str(text);
    }
}

/// Line terminators and invisible characters.
fn is_invisible(c: char) -> bool {
    c.is_control() || matches!(c, '\u{feff}' | '\u{2028}' | '\u{2029}')
}

/// JSON's escapes are a subset of those of double-quoted YAML strings.
fn write_quoted(out: &mut String, text: &str) {
    for c in Value::from(text).to_string().chars() {
        match c {
            c if is_invisible(c) => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
}

fn can_be_literal(text: &str) -> bool {
    !text.starts_with([' ', '\n', '\t']) && !text.contains(|c| is_invisible(c) && c != '\n' && c != '\t')
}

fn write_literal(out: &mut String, text: &str, indent: usize) {
    let body = text.trim_end_matches('\n');
    let indicator = match text.len() - body.len() {
        0 => "|-",
        1 => "|",
        _ => "|+",
    };
    out.push_str(indicator);
    let lines = if indicator == "|+" { &text[..text.len() - 1] } else { body };
    for line in lines.split('\n') {
        out.push('\n');
        if !line.is_empty() {
            pad(out, indent);
            out.push_str(line);
        }
    }
}

/// Unquoted, it would parse as a number, boolean, null or time.
fn means_something_else(text: &str) -> bool {
    const WORDS: &[&str] =
        &["", "~", "null", "true", "false", "yes", "no", "on", "off", "y", "n", ".nan", ".inf", "<<"];
    let lower = text.to_ascii_lowercase();
    if WORDS.contains(&lower.as_str()) || text.parse::<f64>().is_ok() {
        return true;
    }
    let unsigned = lower.trim_start_matches(['+', '-']);
    let is_number_of = |prefix: &str, radix: u32| {
        let digits = unsigned.strip_prefix(prefix).map(|digits| digits.replace('_', ""));
        digits.is_some_and(|digits| !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix)))
    };
    is_number_of("0x", 16)
        || is_number_of("0o", 8)
        || is_number_of("0b", 2)
        || unsigned == ".inf"
        || (unsigned.starts_with(|c: char| c.is_ascii_digit()) && unsigned.replace('_', "").parse::<f64>().is_ok())
        || is_sexagesimal(unsigned)
        || is_date(text)
}

/// `1:30` is a number in YAML 1.1.
fn is_sexagesimal(text: &str) -> bool {
    let mut parts = text.split(':');
    let digits = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit() || c == '.');
    text.contains(':') && parts.next().is_some_and(digits) && parts.all(|part| part.len() <= 5 && digits(part))
}

fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() >= 8
        && bytes[..4].iter().all(u8::is_ascii_digit)
        && bytes[4] == b'-'
        && text.chars().all(|c| c.is_ascii_digit() || "-:.TtZz+ ".contains(c))
}

/// Unquoted, it would not parse as one string.
fn needs_quotes(text: &str) -> bool {
    let first = text.chars().next().unwrap_or(' ');
    let starts_badly = "!&*{}[]|>@`\"'%#,".contains(first)
        || ("-?:".contains(first) && text[first.len_utf8()..].starts_with([' ']))
        || (text.len() == 1 && "-?:=".contains(first))
        || text.starts_with("---")
        || text.starts_with("...");
    starts_badly || text.starts_with(' ') || text.ends_with([' ', ':']) || text.contains(": ") || text.contains(" #")
}

fn pad(out: &mut String, indent: usize) {
    out.extend(std::iter::repeat_n(' ', indent));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn objects_are_printed_as_by_kubectl() {
        let value = json!({
            "kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a", "annotations": {"x/y": "true"}},
            "data": {"script": "a\n  b\n", "one": "1", "cut": "a\nb", "e": "", "time": "2026-11-15T21:02:44Z", "s": "a: b"},
            "list": [{"b": 1, "a": [1, "x"]}, [], {}, null, "- dash", 1.5],
        });
        let expected = "\
apiVersion: v1
data:
  cut: |-
    a
    b
  e: \"\"
  one: \"1\"
  s: 'a: b'
  script: |
    a
      b
  time: \"2026-11-15T21:02:44Z\"
kind: ConfigMap
list:
- a:
  - 1
  - x
  b: 1
- []
- {}
- null
- '- dash'
- 1.5
metadata:
  annotations:
    x/y: \"true\"
  name: a
";
        assert_eq!(to_string(&value), expected);
    }

    #[test]
    fn written_values_parse_back_unchanged() {
        let texts = [
            "",
            " a",
            "a ",
            "a\n",
            "a\n\n",
            "\na",
            "  a\nb",
            "yes",
            "0x1F",
            "1_000",
            "1e3",
            "-",
            "- a",
            "a #b",
            "#a",
            "@a",
            "a: b",
            "a:",
            ":a",
            "{a}",
            "[a",
            "*a",
            "&a",
            "!a",
            "%a",
            "`a",
            "'a'",
            "\"a\"",
            "a\tb",
            "\u{7}",
            "é",
            "---",
            "?",
            "=",
            "<<",
            "null",
            "~",
            "1:30",
            "2026-11-15",
            "12:30:45",
            "0o7",
            "0b1",
            ".5",
            "+1",
            "a\r\nb",
            "\u{feff}a",
            "\u{85}",
            "a\u{2028}b",
            "a\n b\n\tc",
        ];
        for text in texts {
            let value = json!({"key": text, "list": [text, {"k": text}], "nested": {"deep": {"t": text}}});
            let written = to_string(&value);
            let read: Value = serde_saphyr::from_str(&written).unwrap_or_else(|e| panic!("{text:?}: {e}\n{written}"));
            assert_eq!(read, value, "{written}");
            let as_key = json!({text: 1});
            let read: Value = serde_saphyr::from_str(&to_string(&as_key)).unwrap();
            assert_eq!(read, as_key, "{text:?}");
        }
    }
}
