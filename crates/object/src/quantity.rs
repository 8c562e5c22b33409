//! Quantities such as `100m`, `1.5Gi` or `2e3`: exact decimal numbers with Kubernetes' suffix families.

use std::cmp::Ordering;
use std::fmt;

use thiserror::Error;

/// `mantissa * 10^exponent`, exact down to a billionth.
#[derive(Clone, Debug)]
pub struct Quantity {
    mantissa: i128,
    exponent: i32,
    format: QuantityFormat,
    /// The original text, if Kubernetes keeps it instead of rewriting it.
    text: Option<Box<str>>,
}

/// The suffix family a quantity is printed in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QuantityFormat {
    /// `12e6`
    DecimalExponent,
    /// `12Mi`
    BinarySi,
    /// `12M`
    #[default]
    DecimalSi,
}

#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum QuantityError {
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

const NANO: i32 = -9;
/// More digits do not fit the exact arithmetic and denote no real amount.
const DIGITS_MAX: usize = 37;
/// Sums and products stop here, so that they can be parsed again.
const MANTISSA_MAX: i128 = 10i128.pow(DIGITS_MAX as u32) - 1;
/// Larger exponents denote no real amount either; Go would spend memory on them.
const EXPONENT_MAX: i32 = 1_000;

impl Default for Quantity {
    fn default() -> Self {
        Self::from_scaled(0, 0, QuantityFormat::DecimalSi)
    }
}

impl Quantity {
    pub fn new(value: i64, format: QuantityFormat) -> Self {
        Self::from_scaled(value.into(), 0, format)
    }

    pub fn from_milli(value: i64, format: QuantityFormat) -> Self {
        Self::from_scaled(value.into(), -3, format)
    }

    fn from_scaled(mantissa: i128, exponent: i32, format: QuantityFormat) -> Self {
        Self { mantissa, exponent, format, text: None }
    }

    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let text = text.trim();
        let parts = QuantityParts::split(text)?;
        let (base, exponent, format) = read_suffix(parts.suffix).ok_or(QuantityError::Suffix)?;
        let digits = format!("{}{}", parts.whole, parts.fraction);
        if digits.len() > EXPONENT_MAX as usize {
            return Err(QuantityError::Numeric);
        }
        // Zeros at the end belong to the exponent, so that every printed quantity can be parsed again.
        let significant = if base == 10 { digits.trim_end_matches('0') } else { &digits };
        let zeros = digits.len() - significant.len();
        let significant = significant.trim_start_matches('0');
        if significant.len() > DIGITS_MAX {
            return Err(QuantityError::Numeric);
        }
        let magnitude = if significant.is_empty() { Ok(0) } else { significant.parse() };
        let magnitude: i128 = magnitude.map_err(|_| QuantityError::Numeric)?;
        let mut quantity = Self::from_scaled(magnitude, zeros as i32 - parts.fraction.len() as i32, format);
        match base {
            10 => quantity.exponent += exponent,
            _ => quantity.multiply_binary(exponent),
        }
        if quantity.exponent > EXPONENT_MAX && magnitude != 0 {
            return Err(QuantityError::Numeric);
        }
        // A small request must not round down to zero.
        quantity.mantissa += i128::from(quantity.cut_to(NANO));
        if format == QuantityFormat::BinarySi && quantity.mantissa != 0 && quantity.cmp_i64(1).is_lt() {
            quantity.format = QuantityFormat::DecimalSi;
        }
        if parts.negative {
            quantity.mantissa = -quantity.mantissa;
        }
        if parts.keeps_text(&digits, exponent, format) {
            quantity.text = Some(text.into());
        }
        Ok(quantity)
    }

    /// Multiplies by two to the power of the suffix, up to the largest 64-bit integer, where Kubernetes stops.
    fn multiply_binary(&mut self, exponent: i32) {
        let limit = i128::from(i64::MAX);
        let product = self.mantissa.checked_mul(1i128 << exponent);
        let scale = 10i128.checked_pow(self.exponent.unsigned_abs()).unwrap_or(i128::MAX);
        match product {
            Some(product) if product / scale < limit || (product / scale == limit && product % scale == 0) => {
                self.mantissa = product;
            }
            _ => (self.mantissa, self.exponent) = (limit, 0),
        }
    }

    /// Cuts digits finer than `10^exponent`; returns true if something was lost.
    fn cut_to(&mut self, exponent: i32) -> bool {
        let mut lost = false;
        while self.exponent < exponent {
            if self.mantissa == 0 {
                self.exponent = exponent;
                break;
            }
            lost |= self.mantissa % 10 != 0;
            self.mantissa /= 10;
            self.exponent += 1;
            if self.mantissa == 0 && lost {
                self.exponent = exponent;
            }
        }
        lost
    }

    pub fn format(&self) -> QuantityFormat {
        self.format
    }

    pub fn is_zero(&self) -> bool {
        self.mantissa == 0
    }

    pub fn is_negative(&self) -> bool {
        self.mantissa < 0
    }

    /// The whole number, fractions rounded away from zero, capped to 64 bits.
    pub fn value(&self) -> i64 {
        self.scaled(0)
    }

    /// Thousandths, finer fractions rounded away from zero, capped to 64 bits.
    pub fn milli_value(&self) -> i64 {
        self.scaled(-3)
    }

    /// The nearest float.
    pub fn as_f64(&self) -> f64 {
        let power = 10f64.powi(self.exponent.abs());
        if self.exponent < 0 { self.mantissa as f64 / power } else { self.mantissa as f64 * power }
    }

    fn scaled(&self, exponent: i32) -> i64 {
        let (mantissa, from) = self.rounded(exponent);
        let mut value = mantissa;
        for _ in exponent..from {
            if value == 0 || value.unsigned_abs() > i64::MAX as u128 {
                break;
            }
            value *= 10;
        }
        i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
    }

    fn rounded(&self, exponent: i32) -> (i128, i32) {
        let sign = self.mantissa.signum();
        let mut copy = Self::from_scaled(self.mantissa.abs(), self.exponent, self.format);
        let lost = copy.cut_to(exponent);
        (sign * (copy.mantissa + i128::from(lost)), copy.exponent)
    }

    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        self.combine(other, i128::saturating_add)
    }

    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        self.combine(other, i128::saturating_sub)
    }

    #[must_use]
    pub fn times(&self, factor: i64) -> Self {
        Self::bounded(self.mantissa.saturating_mul(factor.into()), self.exponent, self.format)
    }

    #[must_use]
    pub fn negated(&self) -> Self {
        Self::from_scaled(-self.mantissa, self.exponent, self.format)
    }

    /// Zero takes the format of what is added to it, as in Kubernetes.
    fn combine(&self, other: &Self, operation: impl Fn(i128, i128) -> i128) -> Self {
        let format = if self.is_zero() { other.format } else { self.format };
        let exponent = self.exponent.min(other.exponent);
        Self::bounded(operation(self.at_exponent(exponent), other.at_exponent(exponent)), exponent, format)
    }

    /// A result of arithmetic, within the limits of what is parsed.
    fn bounded(mantissa: i128, exponent: i32, format: QuantityFormat) -> Self {
        let result = Self::from_scaled(mantissa.clamp(-MANTISSA_MAX, MANTISSA_MAX), exponent, format);
        if result.normalized().1 > EXPONENT_MAX {
            return Self::from_scaled(mantissa.signum() * MANTISSA_MAX, EXPONENT_MAX, format);
        }
        result
    }

    fn at_exponent(&self, exponent: i32) -> i128 {
        let steps = self.exponent.saturating_sub(exponent);
        (0..steps).try_fold(self.mantissa, |value, _| value.checked_mul(10)).unwrap_or(if self.mantissa < 0 {
            i128::MIN
        } else {
            i128::MAX
        })
    }

    fn cmp_i64(&self, other: i64) -> Ordering {
        self.cmp(&Self::new(other, QuantityFormat::DecimalSi))
    }

    /// Mantissa without trailing zeros, and its exponent.
    fn normalized(&self) -> (i128, i32) {
        let (mut mantissa, mut exponent) = (self.mantissa, self.exponent);
        if mantissa == 0 {
            return (0, 0);
        }
        while mantissa % 10 == 0 {
            mantissa /= 10;
            exponent += 1;
        }
        (mantissa, exponent)
    }

    fn write_decimal(&self, f: &mut fmt::Formatter<'_>, format: QuantityFormat) -> fmt::Result {
        let (mantissa, exponent) = self.normalized();
        let zeros = exponent.rem_euclid(3);
        let exponent = exponent - zeros;
        write!(f, "{mantissa}{}", &"00"[..zeros as usize])?;
        match DECIMAL_SUFFIXES.iter().find(|(_, e)| *e == exponent) {
            _ if exponent == 0 => Ok(()),
            Some((suffix, _)) if format == QuantityFormat::DecimalSi => f.write_str(suffix),
            _ => write!(f, "e{exponent}"),
        }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        let ((a, a_exponent), (b, b_exponent)) = (self.normalized(), other.normalized());
        if a.signum() != b.signum() || a == 0 {
            return a.signum().cmp(&b.signum());
        }
        let digits = |n: i128| n.unsigned_abs().ilog10() as i32;
        let by_size = (digits(a) + a_exponent).cmp(&(digits(b) + b_exponent));
        let by_size = if a < 0 { by_size.reverse() } else { by_size };
        // With equal magnitude, the exponents differ by no more than the digits do, so both fit one scale.
        let exponent = a_exponent.min(b_exponent);
        let scale = |q: &Self, (n, e): (i128, i32)| Self::from_scaled(n, e, q.format).at_exponent(exponent);
        by_size.then_with(|| scale(self, (a, a_exponent)).cmp(&scale(other, (b, b_exponent))))
    }
}

impl fmt::Display for Quantity {
    /// The canonical form: no fraction, the largest suffix that keeps it exact.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(text) = &self.text {
            return f.write_str(text);
        }
        if self.is_zero() {
            return f.write_str("0");
        }
        let small = self.cmp_i64(-1024).is_gt() && self.cmp_i64(1024).is_lt();
        let (whole, exponent) = self.rounded(0);
        let exact = Self::from_scaled(whole, exponent, self.format) == *self;
        if self.format != QuantityFormat::BinarySi || small || !exact {
            let decimal = self.format == QuantityFormat::BinarySi;
            return self.write_decimal(f, if decimal { QuantityFormat::DecimalSi } else { self.format });
        }
        let mut amount = Self::from_scaled(whole, exponent, self.format).at_exponent(0);
        let mut power = 0;
        while amount % 1024 == 0 && power < BINARY_SUFFIXES.len() {
            amount /= 1024;
            power += 1;
        }
        write!(f, "{amount}{}", if power == 0 { "" } else { BINARY_SUFFIXES[power - 1] })
    }
}

const DECIMAL_SUFFIXES: &[(&str, i32)] =
    &[("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY_SUFFIXES: &[&str] = &["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// Base, exponent and family of a suffix.
fn read_suffix(suffix: &str) -> Option<(u32, i32, QuantityFormat)> {
    if let Some((_, exponent)) = DECIMAL_SUFFIXES.iter().find(|(known, _)| *known == suffix) {
        return Some((10, *exponent, QuantityFormat::DecimalSi));
    }
    if let Some(index) = BINARY_SUFFIXES.iter().position(|known| *known == suffix) {
        return Some((2, (index as i32 + 1) * 10, QuantityFormat::BinarySi));
    }
    let digits = suffix.strip_prefix(['e', 'E'])?;
    let exponent: i32 = digits.parse().ok()?;
    (exponent.abs() <= EXPONENT_MAX).then_some((10, exponent, QuantityFormat::DecimalExponent))
}

struct QuantityParts<'a> {
    negative: bool,
    /// Digits before the point without leading zeros, at least `0`.
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

impl<'a> QuantityParts<'a> {
    fn split(text: &'a str) -> Result<Self, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Format);
        }
        let is_digit = |c: char| c.is_ascii_digit();
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let after_whole = unsigned.trim_start_matches(is_digit);
        let whole = unsigned[..unsigned.len() - after_whole.len()].trim_start_matches('0');
        let (fraction, suffix) = match after_whole.strip_prefix('.') {
            Some(rest) => rest.split_at(rest.len() - rest.trim_start_matches(is_digit).len()),
            None => ("", after_whole),
        };
        let after_letters = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
        let exponent = after_letters.strip_prefix(['+', '-']).unwrap_or(after_letters);
        if !exponent.chars().all(is_digit) {
            return Err(QuantityError::Format);
        }
        let whole = if whole.is_empty() { "0" } else { whole };
        Ok(Self { negative: text.starts_with('-'), whole, fraction, suffix })
    }

    /// Kubernetes keeps the original text if it looks canonical at a glance; `1.500` stays, `0.5` becomes `500m`.
    fn keeps_text(&self, digits: &str, exponent: i32, format: QuantityFormat) -> bool {
        let length = digits.len() as i32;
        match format {
            QuantityFormat::BinarySi => {
                let precision = 15 - length - exponent * 3 / 10 - 1;
                let value: u64 = self.whole.parse().unwrap_or(0);
                self.fraction.is_empty() && precision >= 0 && value & 7 != 0
            }
            _ => {
                let scale = exponent - self.fraction.len() as i32;
                length <= 18 && scale >= NANO && scale % 3 == 0 && !digits.ends_with("000") && !digits.starts_with('0')
            }
        }
    }
}

#[cfg(test)]
mod tests;
