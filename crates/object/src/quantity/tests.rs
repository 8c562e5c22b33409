//! Quantities parsed, printed, compared and added as in Kubernetes.

use proptest::prelude::*;

use super::*;

fn quantity(text: &str) -> Quantity {
    Quantity::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Texts and canonical forms from apimachinery v0.36, pkg/api/resource/quantity_test.go and its parser.
#[test]
fn texts_become_canonical() {
    let cases = [
        ("0", "0"),
        ("0n", "0"),
        ("0.5", "500m"),
        ("100m", "100m"),
        ("1500m", "1500m"),
        ("1.500", "1.500"),
        ("1000m", "1"),
        ("1.5Gi", "1536Mi"),
        ("1Ki", "1Ki"),
        ("1024Ki", "1Mi"),
        ("1025Ki", "1025Ki"),
        ("0.5Ki", "512"),
        ("1.1Ki", "1126400m"),
        ("1000Ki", "1000Ki"),
        ("1000", "1k"),
        ("1000000", "1M"),
        ("1e3", "1e3"),
        ("1E3", "1E3"),
        ("100e2", "10e3"),
        ("1E", "1E"),
        ("12.3e3", "12300"),
        ("0.0001n", "1n"),
        ("-0.5", "-500m"),
        ("9Ei", "9223372036854775807"),
        ("8Ei", "9223372036854775807"),
        ("1G", "1G"),
        (".5", "500m"),
        ("1.", "1."),
        ("4096Mi", "4Gi"),
        ("0.001", "1m"),
        ("1e-6", "1e-6"),
    ];
    for (text, canonical) in cases {
        assert_eq!(quantity(text).to_string(), canonical, "{text}");
    }
}

#[test]
fn invalid_quantities_are_rejected_with_kubernetes_messages() {
    let cases = [
        ("", QuantityError::Format),
        ("abc", QuantityError::Format),
        ("1 Gi", QuantityError::Format),
        ("1.2.3", QuantityError::Format),
        ("true", QuantityError::Format),
        ("1Kii", QuantityError::Suffix),
        ("1ee3", QuantityError::Suffix),
        ("1mm", QuantityError::Suffix),
        ("10e99999999999", QuantityError::Suffix),
    ];
    for (text, expected) in cases {
        assert_eq!(Quantity::parse(text).err(), Some(expected), "{text}");
    }
    let words = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    assert_eq!(QuantityError::Format.to_string(), words);
}

#[test]
fn values_round_away_from_zero_and_stop_at_64_bits() {
    let cases = [
        ("1.1", 2, 1100),
        ("-1.1", -2, -1100),
        ("100m", 1, 100),
        ("100u", 1, 1),
        ("1Gi", 1 << 30, (1 << 30) * 1000),
        ("1e30", i64::MAX, i64::MAX),
        ("-1e30", i64::MIN, i64::MIN),
    ];
    for (text, value, milli) in cases {
        assert_eq!((quantity(text).value(), quantity(text).milli_value()), (value, milli), "{text}");
    }
}

#[test]
fn sums_keep_the_format_of_the_first_operand() {
    let cases = [("1Gi", "1Gi", "2Gi"), ("100m", "900m", "1"), ("0", "1Ki", "1Ki"), ("1Gi", "1m", "1073741824001m")];
    for (a, b, sum) in cases {
        assert_eq!(quantity(a).plus(&quantity(b)).to_string(), sum, "{a} + {b}");
    }
    assert_eq!(quantity("1Gi").minus(&quantity("1Gi")).to_string(), "0");
    assert_eq!(quantity("1").minus(&quantity("1500m")).to_string(), "-500m");
}

#[test]
fn what_is_printed_can_be_parsed_again() {
    for text in [
        "9999999223379999081489999263547543758E07",
        "9999999999999999999999999999999999999e2",
        "-9999999999999999999999999999999999999e-5",
        "5e1000",
        "1000000000000000000000000000000000000000000000000",
        "100000000000000000000000000000000000000000.000",
    ] {
        let first = quantity(text);
        for result in [first.plus(&first), first.times(i64::MAX), first.negated(), first] {
            let printed = result.to_string();
            assert_eq!(quantity(&printed).to_string(), printed, "{text}");
        }
    }
    let nines = "9".repeat(37);
    assert_eq!(quantity(&format!("{nines}e2")).to_string(), format!("{nines}00"));
    assert_eq!(Quantity::parse(&format!("1{}e999", "0".repeat(99))).err(), Some(QuantityError::Numeric));
}

fn text() -> impl Strategy<Value = String> {
    let suffix = prop::sample::select(vec![
        "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "e3", "e-3",
    ]);
    (any::<bool>(), 0u64..1_000_000, prop::option::of(0u32..1000), suffix).prop_map(
        |(minus, whole, fraction, suffix)| {
            let fraction = fraction.map(|f| format!(".{f:03}")).unwrap_or_default();
            format!("{}{whole}{fraction}{suffix}", if minus { "-" } else { "" })
        },
    )
}

proptest! {
    #[test]
    fn the_canonical_form_reads_back_as_the_same_amount(text in text()) {
        let first = quantity(&text);
        let shown = Quantity { text: None, ..first.clone() }.to_string();
        prop_assert_eq!(&quantity(&shown), &first, "{} shown as {}", text, shown);
        prop_assert_eq!(Quantity { text: None, ..quantity(&shown) }.to_string(), shown);
    }

    #[test]
    fn subtracting_reverses_adding(a in text(), b in text()) {
        let (a, b) = (quantity(&a), quantity(&b));
        prop_assert_eq!(a.plus(&b).minus(&b), a.clone());
        prop_assert_eq!(a.plus(&b), b.plus(&a));
        prop_assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
        prop_assert_eq!(a.cmp(&b), a.minus(&b).cmp(&Quantity::default()));
    }

    #[test]
    fn parsing_never_panics(text in "[-+0-9.eEinumkKMGTPi]{0,60}") {
        if let Ok(quantity) = Quantity::parse(&text) {
            let _ = (quantity.to_string(), quantity.value(), quantity.milli_value());
        }
    }
}
