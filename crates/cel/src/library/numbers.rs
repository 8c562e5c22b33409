//! Numbers in Go's notation.

/// The shortest text that parses back to the value, in scientific notation where Go's `%g` uses it.
pub(super) fn shortest(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) { format!("{value}") } else { with_go_exponent(mantissa, exponent) }
}

/// Scientific notation with a sign and at least two exponent digits.
fn with_go_exponent(mantissa: &str, exponent: i32) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}
