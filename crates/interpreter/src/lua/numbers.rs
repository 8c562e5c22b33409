//! Numbers in the format of Karmada's Lua, which is Go's.

/// Integers plain, other numbers as short as they round-trip.
pub fn text(number: f64) -> String {
    if number.fract() == 0.0 && number.abs() < 9.2e18 {
        return format!("{}", number as i64);
    }
    shortest(number)
}

/// Go's `%v` of a float64: an exponent below 1e-4 and from 1e21 on.
pub fn shortest(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf".to_owned() } else { "-Inf".to_owned() };
    }
    let magnitude = number.abs();
    if magnitude != 0.0 && !(1e-4..1e21).contains(&magnitude) {
        exponent(number, None, 'e')
    } else {
        number.to_string()
    }
}

/// `1.5e+06`; without a precision as short as possible.
pub fn exponent(number: f64, precision: Option<usize>, letter: char) -> String {
    let text = match precision {
        Some(precision) => format!("{number:.precision$e}"),
        None => format!("{number:e}"),
    };
    let (mantissa, power) = text.split_once('e').unwrap_or((&text, "0"));
    let power: i32 = power.parse().unwrap_or(0);
    format!("{mantissa}{letter}{}{:02}", if power < 0 { '-' } else { '+' }, power.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_format_as_in_go() {
        let cases = [
            (0.0, "0"),
            (3.0, "3"),
            (-3.0, "-3"),
            (1e15, "1000000000000000"),
            (0.5, "0.5"),
            (0.1 + 0.2, "0.30000000000000004"),
            (1e-5, "1e-05"),
            (1e21, "1e+21"),
            (1.5e300, "1.5e+300"),
            (f64::INFINITY, "+Inf"),
        ];
        for (number, expected) in cases {
            assert_eq!(text(number), expected);
        }
    }
}
