//! Quantities against Kubernetes' documented forms and an independent big-integer oracle.

use proptest::prelude::*;

use super::*;
use crate::plan::properties;

const GI: u64 = 1 << 30;

/// Forms from Kubernetes' documentation of resource units and of `Quantity`.
#[test]
fn documented_forms_have_their_documented_values() {
    let memory = [
        ("128974848", 128_974_848),
        ("129e6", 129_000_000),
        ("129M", 129_000_000),
        ("128974848000m", 128_974_848),
        ("123Mi", 128_974_848),
        ("1.5Gi", GI + GI / 2),
        ("0.5Gi", GI / 2),
        (".5Gi", GI / 2),
        ("1.Gi", GI),
        ("+1Gi", GI),
        ("001Gi", GI),
        ("1k", 1000),
        ("1Ki", 1024),
        ("1E", 1_000_000_000_000_000_000),
        ("1E3", 1000),
        ("1e+3", 1000),
        ("2E-1", 1),
        ("1Ei", 1 << 60),
        ("7Pi", 7 << 50),
        ("3T", 3_000_000_000_000),
        // Rounded up to a byte.
        ("1n", 1),
        ("1u", 1),
        ("1m", 1),
        ("1001m", 2),
        ("0.1", 1),
        ("1.0000000000000000000000000000000000000000000001", 2),
        ("1.0000000000000000000000000000000000000000000000", 1),
        ("0.1Ki", 103),
        ("1e-999999999", 1),
        ("9223372036854775807", i64::MAX as u64),
        ("0.000000000000000000000000000001e30", 1),
        ("100000000000000000000000000000000000000000e-40", 10),
    ];
    for (text, bytes) in memory {
        assert_eq!(memory_bytes(text), Ok(bytes), "{text}");
    }
    let cpu = [
        ("0.1", 100),
        ("100m", 100),
        ("1", 1000),
        ("2.5", 2500),
        ("1k", 1_000_000),
        ("0.0001", 1),
        ("1n", 1),
        ("1500u", 2),
        ("1Ki", 1_024_000),
        ("9223372036854775.807", i64::MAX as u64),
    ];
    for (text, millis) in cpu {
        assert_eq!(cpu_millis(text), Ok(millis), "{text}");
    }
}

/// The malformed forms of Kubernetes' own parser tests, and more of their kinds.
#[test]
fn what_is_no_quantity_is_refused() {
    let rows = [
        "",
        "+",
        "-",
        ".",
        "m",
        "Ki",
        "1.1.M",
        "1+1.0M",
        "0.1mi",
        "0.1am",
        "aoeu",
        ".5i",
        "1i",
        "-3.01i",
        "-3.01e-",
        " 1",
        "1 ",
        "1 Gi",
        "1\n",
        "1K",
        "1KI",
        "1ki",
        "1mi",
        "1g",
        "1GB",
        "1Kii",
        "1Kim",
        "1mm",
        "e3",
        "1e",
        "1e+",
        "1e--3",
        "1e1.5",
        "1e3m",
        "1e 3",
        "1e99999999999999999999",
        "0x10",
        "1_000",
        "1,5",
        "NaN",
        "inf",
        "\u{661}",
        "\u{ff11}",
        "1\u{b5}",
        "--1",
        "+-1",
        "1/2",
        "1\0",
    ];
    for text in rows {
        for refused in [cpu_millis(text), memory_bytes(text)] {
            assert!(
                matches!(refused, Err(QuantityError::Syntax(_) | QuantityError::Suffix { .. })),
                "{text:?}: {refused:?}"
            );
        }
    }
}

#[test]
fn nothing_and_less_are_refused() {
    for text in ["0", "-0", "0.0", "0Gi", "0e10", "000", ".0", "0.m"] {
        assert!(matches!(memory_bytes(text), Err(QuantityError::Zero(_))), "{text}");
    }
    for text in ["-1", "-1m", "-0.5Gi", "-1e-99"] {
        assert!(matches!(cpu_millis(text), Err(QuantityError::Negative(_))), "{text}");
    }
}

#[test]
fn what_kubernetes_would_cap_is_refused() {
    let rows = [
        "9223372036854775808",
        "9223372036854775807.1",
        "8Ei",
        "10E",
        "1e19",
        "1e999999999",
        "99999999999999999999999999999999999999999999",
    ];
    for text in rows {
        assert!(matches!(memory_bytes(text), Err(QuantityError::TooLarge(_))), "{text}");
    }
    for text in ["9223372036854775.808", "9223372036854775.8071", "10P", "1e16"] {
        assert!(matches!(cpu_millis(text), Err(QuantityError::TooLarge(_))), "{text}");
    }
    assert!(memory_bytes("7.999999999999999999Ei").is_ok());
}

#[test]
fn a_common_mistake_is_answered_by_name() {
    let message = memory_bytes("1K").unwrap_err().to_string();
    assert_eq!(message, "`1K` is not a Kubernetes quantity; its suffix should be `k` (1000) or `Ki` (1024)");
}

#[test]
fn amounts_print_in_their_largest_exact_unit() {
    for (millis, text) in [(500, "500m"), (1000, "1"), (2000, "2"), (1, "1m"), (1500, "1500m")] {
        assert_eq!(cpu_quantity(millis).0, text);
    }
    for (bytes, text) in [
        (268_435_456, "256Mi"),
        (1000, "1000"),
        (1024, "1Ki"),
        (1 << 60, "1Ei"),
        (GI + GI / 2, "1536Mi"),
        (1, "1"),
        (0, "0"),
    ] {
        assert_eq!(memory_quantity(bytes).0, text);
    }
}

/// `ceil(digits * 10^power_of_ten * 2^power_of_two)` by arithmetic on strings of decimal digits.
fn oracle(digits: &str, mut power_of_ten: i64, power_of_two: u32) -> Option<u64> {
    // Least significant digit first.
    let mut number: Vec<u8> = digits.bytes().rev().map(|b| b - b'0').collect();
    for _ in 0..power_of_two {
        let mut carry = 0;
        for digit in &mut number {
            let double = *digit * 2 + carry;
            *digit = double % 10;
            carry = double / 10;
        }
        number.push(carry);
    }
    while power_of_ten > 0 {
        number.insert(0, 0);
        power_of_ten -= 1;
    }
    let mut inexact = false;
    while power_of_ten < 0 {
        inexact |= !number.is_empty() && number.remove(0) != 0;
        power_of_ten += 1;
    }
    let text: String = number.iter().rev().map(|digit| char::from(digit + b'0')).collect();
    let text = text.trim_start_matches('0');
    let value: u128 = if text.is_empty() { 0 } else { text.parse().ok()? };
    let value = value.checked_add(u128::from(inexact))?;
    i64::try_from(value).ok()?.try_into().ok()
}

fn suffixes() -> impl Strategy<Value = (String, i64, u32)> {
    let plain = [
        ("n", -9, 0),
        ("u", -6, 0),
        ("m", -3, 0),
        ("", 0, 0),
        ("k", 3, 0),
        ("M", 6, 0),
        ("G", 9, 0),
        ("T", 12, 0),
        ("P", 15, 0),
        ("E", 18, 0),
        ("Ki", 0, 10),
        ("Mi", 0, 20),
        ("Gi", 0, 30),
        ("Ti", 0, 40),
        ("Pi", 0, 50),
        ("Ei", 0, 60),
    ];
    prop_oneof![
        prop::sample::select(plain.to_vec()).prop_map(|(suffix, ten, two)| (suffix.to_owned(), ten, two)),
        (prop::sample::select(vec!["e", "E", "e+", "E+"]), 0..40_i64).prop_map(|(sign, exponent)| (
            format!("{sign}{exponent}"),
            exponent,
            0
        )),
        (prop::sample::select(vec!["e-", "E-"]), 0..60_i64).prop_map(|(sign, exponent)| (
            format!("{sign}{exponent}"),
            -exponent,
            0
        )),
    ]
}

proptest! {
    #![proptest_config(properties(2000))]

    #[test]
    fn every_amount_agrees_with_the_oracle(
        whole in "0{0,3}[0-9]{0,22}",
        fraction in "([0-9]{0,40})|(0{0,20}[0-9]{0,3})",
        (suffix, ten, two) in suffixes(),
    ) {
        prop_assume!(!(whole.is_empty() && fraction.is_empty()));
        let digits = format!("{whole}{fraction}");
        prop_assume!(digits.bytes().any(|b| b != b'0'));
        let text = if fraction.is_empty() { format!("{whole}{suffix}") } else { format!("{whole}.{fraction}{suffix}") };
        let ten = ten - i64::try_from(fraction.len()).unwrap();
        prop_assert_eq!(memory_bytes(&text).ok(), oracle(&digits, ten, two), "{}", text);
        prop_assert_eq!(cpu_millis(&text).ok(), oracle(&digits, ten + 3, two), "{}", text);
    }

    #[test]
    fn what_is_printed_reads_back(amount in 1..=i64::MAX as u64) {
        prop_assert_eq!(memory_bytes(&memory_quantity(amount).0), Ok(amount));
        prop_assert_eq!(cpu_millis(&cpu_quantity(amount).0), Ok(amount));
        let round = amount >> 24 << 24;
        if round > 0 {
            prop_assert_eq!(memory_bytes(&memory_quantity(round).0), Ok(round));
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in ".{0,20}|[-+0-9.eEkKMGTPEimnu]{0,20}") {
        let _ = cpu_millis(&text);
        let _ = memory_bytes(&text);
    }
}
