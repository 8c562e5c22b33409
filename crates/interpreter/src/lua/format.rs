//! `string.format` with Go's verbs, as in Karmada's Lua.

use data_encoding::{HEXLOWER, HEXUPPER};

use super::numbers;

/// Wider fields only serve to exhaust memory.
const WIDTH_MAX: usize = 1_000;

/// An argument to format.
#[derive(Clone, Debug, PartialEq)]
pub enum Argument {
    Number(f64),
    Text(Vec<u8>),
    /// Any other value, already as text.
    Other(String),
}

#[derive(Default)]
struct Directive {
    minus: bool,
    plus: bool,
    zero: bool,
    space: bool,
    sharp: bool,
    width: usize,
    precision: Option<usize>,
}

pub fn format(template: &[u8], arguments: &[Argument]) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(template.len() + 16);
    let mut arguments = arguments.iter();
    let mut rest = template;
    while let Some(at) = memchr(rest) {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix(b"%") {
            out.push(b'%');
            rest = after;
            continue;
        }
        let (directive, verb, after) = parse(rest)?;
        rest = after;
        let Some(verb) = verb else {
            out.extend_from_slice(b"%!(NOVERB)");
            break;
        };
        match arguments.next() {
            Some(argument) => pad(&mut out, &directive, render(argument, verb, &directive)),
            None => out.extend_from_slice(format!("%!{}(MISSING)", verb as char).as_bytes()),
        }
    }
    out.extend_from_slice(rest);
    Ok(out)
}

fn memchr(text: &[u8]) -> Option<usize> {
    text.iter().position(|byte| *byte == b'%')
}

fn parse(text: &[u8]) -> Result<(Directive, Option<u8>, &[u8]), String> {
    let mut directive = Directive::default();
    let mut at = 0;
    while let Some(flag) = text.get(at) {
        match flag {
            b'-' => directive.minus = true,
            b'+' => directive.plus = true,
            b'0' => directive.zero = true,
            b' ' => directive.space = true,
            b'#' => directive.sharp = true,
            _ => break,
        }
        at += 1;
    }
    let number = |at: &mut usize| {
        let start = *at;
        while text.get(*at).is_some_and(u8::is_ascii_digit) {
            *at += 1;
        }
        let digits = &text[start..*at];
        let value = digits.iter().try_fold(0usize, |n, digit| {
            let n = n * 10 + usize::from(digit - b'0');
            (n <= WIDTH_MAX).then_some(n)
        });
        value.ok_or_else(|| format!("a field of string.format may not be wider than {WIDTH_MAX}"))
    };
    directive.width = number(&mut at)?;
    if text.get(at) == Some(&b'.') {
        at += 1;
        directive.precision = Some(number(&mut at)?);
    }
    match text.get(at) {
        Some(verb) => Ok((directive, Some(*verb), &text[at + 1..])),
        None => Ok((directive, None, &[])),
    }
}

fn render(argument: &Argument, verb: u8, directive: &Directive) -> Vec<u8> {
    match argument {
        Argument::Number(number) => render_number(*number, verb, directive),
        Argument::Text(text) => match verb {
            b's' | b'v' | b'd' | b'i' => cut(text, directive),
            b'q' => object::field::go_quote(&String::from_utf8_lossy(&cut(text, directive))).into_bytes(),
            b'x' => HEXLOWER.encode(text).into_bytes(),
            b'X' => HEXUPPER.encode(text).into_bytes(),
            other => {
                let text = String::from_utf8_lossy(text);
                format!("%!{}(string={text})", other as char).into_bytes()
            }
        },
        Argument::Other(text) => match verb {
            b'q' => object::field::go_quote(text).into_bytes(),
            _ => cut(text.as_bytes(), directive),
        },
    }
}

/// A precision truncates a text, by characters.
fn cut(text: &[u8], directive: &Directive) -> Vec<u8> {
    match (directive.precision, std::str::from_utf8(text)) {
        (None, _) => text.to_vec(),
        (Some(precision), Ok(text)) => text.chars().take(precision).collect::<String>().into_bytes(),
        (Some(precision), Err(_)) => text[..precision.min(text.len())].to_vec(),
    }
}

fn render_number(number: f64, verb: u8, directive: &Directive) -> Vec<u8> {
    let whole = number as i64;
    let text = match verb {
        b'd' | b'i' => whole.to_string(),
        b'x' => hex(whole, false, directive.sharp),
        b'X' => hex(whole, true, directive.sharp),
        b'o' => signed(whole, format!("{:o}", whole.unsigned_abs())),
        b'b' => signed(whole, format!("{:b}", whole.unsigned_abs())),
        b'c' => u32::try_from(whole).ok().and_then(char::from_u32).unwrap_or('\u{fffd}').to_string(),
        b'f' | b'F' => format!("{number:.*}", directive.precision.unwrap_or(6)),
        b'e' => numbers::exponent(number, Some(directive.precision.unwrap_or(6)), 'e'),
        b'E' => numbers::exponent(number, Some(directive.precision.unwrap_or(6)), 'E'),
        b'g' => general(number, directive.precision),
        b'G' => general(number, directive.precision).to_uppercase(),
        b'q' => object::field::go_quote(&numbers::text(number)),
        _ => numbers::text(number),
    };
    match verb {
        b'c' | b's' | b'q' => text.into_bytes(),
        _ if directive.plus && !text.starts_with('-') => format!("+{text}").into_bytes(),
        _ if directive.space && !text.starts_with('-') => format!(" {text}").into_bytes(),
        _ => text.into_bytes(),
    }
}

fn signed(number: i64, digits: String) -> String {
    if number < 0 { format!("-{digits}") } else { digits }
}

fn hex(number: i64, upper: bool, prefixed: bool) -> String {
    let digits = number.unsigned_abs();
    let digits = if upper { format!("{digits:X}") } else { format!("{digits:x}") };
    signed(number, if prefixed { format!("0{}{digits}", if upper { 'X' } else { 'x' }) } else { digits })
}

/// Go's `%g`: shortest without a precision, else that many digits, with an exponent if that is shorter.
fn general(number: f64, precision: Option<usize>) -> String {
    let Some(precision) = precision else { return numbers::shortest(number) };
    if !number.is_finite() || number == 0.0 {
        return numbers::shortest(number);
    }
    let digits = precision.max(1);
    let text = numbers::exponent(number, Some(digits - 1), 'e');
    let (mantissa, power) = text.split_once('e').unwrap_or((&text, "0"));
    let power: i32 = power.parse().unwrap_or(0);
    let trim = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if power < -4 || power >= digits as i32 {
        return format!("{}e{}{:02}", trim(mantissa), if power < 0 { '-' } else { '+' }, power.abs());
    }
    let decimals = (digits as i32 - 1 - power).max(0) as usize;
    trim(&format!("{number:.decimals$}"))
}

fn pad(out: &mut Vec<u8>, directive: &Directive, text: Vec<u8>) {
    let length = std::str::from_utf8(&text).map_or(text.len(), |text| text.chars().count());
    let missing = directive.width.saturating_sub(length);
    if directive.minus {
        out.extend_from_slice(&text);
        out.extend(std::iter::repeat_n(b' ', missing));
    } else if directive.zero && text.first().is_some_and(|sign| matches!(sign, b'-' | b'+')) {
        out.push(text[0]);
        out.extend(std::iter::repeat_n(b'0', missing));
        out.extend_from_slice(&text[1..]);
    } else {
        out.extend(std::iter::repeat_n(if directive.zero { b'0' } else { b' ' }, missing));
        out.extend_from_slice(&text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_format_as_in_go() {
        let text = |text: &str| Argument::Text(text.as_bytes().to_vec());
        let cases = [
            ("%d", vec![Argument::Number(3.7)], "3"),
            ("%i items", vec![Argument::Number(3.0)], "3 items"),
            (
                "%05d|%-5d|%+d",
                vec![Argument::Number(-42.0), Argument::Number(7.0), Argument::Number(7.0)],
                "-0042|7    |+7",
            ),
            (
                "%f %.2f %5.1f",
                vec![Argument::Number(1.5), Argument::Number(1.005), Argument::Number(2.25)],
                "1.500000 1.00   2.2",
            ),
            ("%s=%s", vec![text("a"), Argument::Number(1e15)], "a=1000000000000000"),
            ("%s %s", vec![Argument::Other("nil".into()), Argument::Other("true".into())], "nil true"),
            ("%q", vec![text("a\"b")], "\"a\\\"b\""),
            (
                "%x %X %#x",
                vec![Argument::Number(255.0), Argument::Number(255.0), Argument::Number(255.0)],
                "ff FF 0xff",
            ),
            ("%c%c", vec![Argument::Number(72.0), Argument::Number(105.0)], "Hi"),
            (
                "%g %g %.3g",
                vec![Argument::Number(0.1), Argument::Number(1e21), Argument::Number(1234.5)],
                "0.1 1e+21 1.23e+03",
            ),
            ("%e", vec![Argument::Number(1234.5)], "1.234500e+03"),
            ("%v", vec![Argument::Number(0.25)], "0.25"),
            ("%5s|%-5s|%.2s", vec![text("ab"), text("ab"), text("abcdef")], "   ab|ab   |ab"),
            ("100%%", vec![], "100%"),
            ("%d", vec![], "%!d(MISSING)"),
            ("%f", vec![text("x")], "%!f(string=x)"),
            ("end%", vec![], "end%!(NOVERB)"),
        ];
        for (template, arguments, expected) in cases {
            let out = format(template.as_bytes(), &arguments).expect("formats");
            assert_eq!(String::from_utf8_lossy(&out), expected, "{template}");
        }
        assert!(format(b"%99999999d", &[Argument::Number(1.0)]).is_err());
    }
}
