//! Resource quantities (`500m`, `1Gi`): their value for rules, and their canonical form in storage.

use serde_json::{Map, Value};

use super::fields::{Field, NEGATIVE};

const NANO: i128 = 1_000_000_000;
/// kube-apiserver's message for a malformed quantity.
pub const MALFORMED: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// A quantity in billionths, with its suffix family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount {
    nanos: i128,
    form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Decimal,
    Binary,
    Exponent,
}

impl PartialOrd for Amount {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.nanos.cmp(&other.nanos))
    }
}

impl Amount {
    pub const ZERO: Self = Self { nanos: 0, form: Form::Decimal };

    pub fn of(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Self::parse(text),
            Value::Number(number) => Self::parse(&number.to_string()),
            _ => None,
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (negative, unsigned) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let digits_end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(digits_end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if number.is_empty() || fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
            return None;
        }
        let (form, base, exponent) = suffix_meaning(suffix)?;
        let nanos = scale(whole, fraction, base, exponent)?;
        let form = if form == Form::Binary && nanos > 0 && nanos < NANO { Form::Decimal } else { form };
        Some(Self { nanos: if negative { -nanos } else { nanos }, form })
    }

    pub fn is_negative(self) -> bool {
        self.nanos < 0
    }

    pub fn is_positive(self) -> bool {
        self.nanos > 0
    }

    pub fn same_as(self, other: Self) -> bool {
        self.nanos == other.nanos
    }

    /// Reports whether it is a whole number (at the precision Kubernetes checks, thousandths).
    pub fn is_whole(self) -> bool {
        ceil_div(self.nanos, NANO / 1000) % 1000 == 0
    }

    /// The next integer away from zero.
    pub fn whole(self) -> i128 {
        ceil_div(self.nanos, NANO)
    }

    pub fn thousandths(self) -> i128 {
        ceil_div(self.nanos, NANO / 1000)
    }

    pub fn plus(self, other: Self) -> Self {
        let form = if self.nanos == 0 { other.form } else { self.form };
        Self { nanos: self.nanos.saturating_add(other.nanos), form }
    }

    pub fn max(self, other: Self) -> Self {
        if other.nanos > self.nanos { other } else { self }
    }

    fn rounded_up_to_thousandths(self) -> Self {
        Self { nanos: self.thousandths().saturating_mul(NANO / 1000), ..self }
    }
}

/// The canonical form.
impl std::fmt::Display for Amount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let whole = self.nanos % NANO == 0;
        let units = self.nanos / NANO;
        if self.form == Form::Binary && whole && units.abs() >= 1024 {
            let (mut number, mut power) = (units, 0);
            while number % 1024 == 0 && power < 6 {
                number /= 1024;
                power += 1;
            }
            return write!(f, "{number}{}", ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][power]);
        }
        if self.nanos == 0 {
            return f.write_str("0");
        }
        let (mut number, mut exponent) = (self.nanos, -9);
        while number % 1000 == 0 && exponent < 18 {
            number /= 1000;
            exponent += 3;
        }
        match (self.form, exponent) {
            (Form::Exponent, 0) => write!(f, "{number}"),
            (Form::Exponent, _) => write!(f, "{number}e{exponent}"),
            _ => write!(
                f,
                "{number}{}",
                ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"][((exponent + 9) / 3) as usize]
            ),
        }
    }
}

fn suffix_meaning(suffix: &str) -> Option<(Form, i128, i32)> {
    let decimal = |exponent| Some((Form::Decimal, 10, exponent));
    let binary = |exponent| Some((Form::Binary, 2, exponent));
    match suffix {
        "" => decimal(0),
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(10),
        "Mi" => binary(20),
        "Gi" => binary(30),
        "Ti" => binary(40),
        "Pi" => binary(50),
        "Ei" => binary(60),
        _ => {
            let digits = suffix.strip_prefix(['e', 'E'])?;
            let exponent = digits.strip_prefix('+').unwrap_or(digits).parse().ok()?;
            Some((Form::Exponent, 10, exponent))
        }
    }
}

/// `whole.fraction * base^exponent` in billionths, rounded away from zero.
fn scale(whole: &str, fraction: &str, base: i128, exponent: i32) -> Option<i128> {
    let fraction = &fraction[..fraction.len().min(18)];
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    let value: i128 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    let mut tens = 9 - fraction.len() as i32;
    let mut value = value;
    if base == 2 {
        value = value.checked_shl(exponent as u32).filter(|v| v >> exponent == value).unwrap_or(i128::MAX / NANO);
    } else {
        tens += exponent;
    }
    let nanos = if tens >= 0 {
        10i128.checked_pow(tens as u32).and_then(|p| value.checked_mul(p)).unwrap_or(i128::MAX / 2)
    } else {
        10i128.checked_pow(-tens as u32).map_or(i128::from(value != 0), |p| ceil_div(value, p))
    };
    let max = i128::from(i64::MAX) * NANO;
    Some(if base == 2 { nanos.min(max) } else { nanos })
}

/// Division that rounds away from zero.
fn ceil_div(value: i128, by: i128) -> i128 {
    let quotient = value / by;
    if value % by == 0 { quotient } else { quotient + value.signum() }
}

/// Canonicalizes every quantity of a resource list, rounded up to thousandths.
pub fn canonicalize_list(map: &mut Map<String, Value>, key: &str) {
    let Some(list) = map.get_mut(key).and_then(Value::as_object_mut) else { return };
    for value in list.values_mut() {
        if let Some(amount) = Amount::of(value) {
            respell(value, amount.rounded_up_to_thousandths());
        }
    }
}

/// Canonicalizes one quantity.
pub fn canonicalize(map: &mut Map<String, Value>, key: &str) {
    if let Some(value) = map.get_mut(key)
        && let Some(amount) = Amount::of(value)
    {
        respell(value, amount);
    }
}

fn respell(value: &mut Value, amount: Amount) {
    let text = amount.to_string();
    if value.as_str() != Some(text.as_str()) {
        *value = Value::String(text);
    }
}

impl Field<'_> {
    /// The quantity; zero if absent or malformed.
    pub fn amount(self) -> Amount {
        self.value().and_then(Amount::of).unwrap_or(Amount::ZERO)
    }

    /// Rejects a negative quantity.
    pub fn non_negative_amount(self) {
        match self.value().map(Amount::of) {
            Some(None) => self.invalid(MALFORMED),
            Some(Some(amount)) if amount.is_negative() => self.invalid_as(amount.to_string(), NEGATIVE),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_spelled_as_kubernetes_stores_them() {
        let cases = [
            ("1", "1"),
            ("0", "0"),
            ("0.5", "500m"),
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("100m", "100m"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("512", "512"),
            ("1000", "1k"),
            ("2048Ki", "2Mi"),
            ("1e3", "1e3"),
            ("12e6", "12e6"),
            ("0.1Ki", "102400m"),
            ("100Ki", "100Ki"),
            ("1Ki", "1Ki"),
            ("512Ki", "512Ki"),
            ("128974848", "128974848"),
            ("-5", "-5"),
        ];
        for (input, expected) in cases {
            assert_eq!(Amount::parse(input).expect(input).to_string(), expected, "{input}");
        }
    }

    #[test]
    fn malformed_quantities_are_rejected() {
        for input in ["", "a", "1.2.3", "1Kb", "1 Gi", ".", "--1"] {
            assert_eq!(Amount::parse(input), None, "{input}");
        }
    }
}
