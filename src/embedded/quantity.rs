//! Kubernetes quantities ("500m", "1.5", "64Mi", "1e3") as thousandths of the unit.

/// The quantity in thousandths, rounded up as Kubernetes does; `None` when it is none.
#[must_use]
pub fn millis(text: &str) -> Option<u128> {
    let text = text.strip_prefix('+').unwrap_or(text);
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at_checked(end)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') || number.len() > 24 {
        return None;
    }
    let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
    // The value is digits * factor * 10^exponent, in thousandths.
    let (factor, power) = scale(suffix)?;
    let exponent = power + 3 - i32::try_from(fraction.len()).ok()?;
    let scaled = digits.checked_mul(factor)?;
    let ten_to = |n: i32| 10_u128.checked_pow(n.unsigned_abs());
    if exponent >= 0 {
        scaled.checked_mul(ten_to(exponent)?)
    } else {
        Some(scaled.div_ceil(ten_to(exponent)?))
    }
}

/// The quantity in whole units, rounded up.
#[must_use]
pub fn units(text: &str) -> Option<u64> {
    u64::try_from(millis(text)?.div_ceil(1000)).ok()
}

/// So many whole units, as Kubernetes writes a quantity of bytes: in the largest binary unit that leaves no rest.
#[must_use]
pub fn binary(units: u64) -> String {
    let suffixes = ["Ei", "Pi", "Ti", "Gi", "Mi", "Ki"];
    let of = |index: usize| 1_u64.checked_shl(10 * u32::try_from(6 - index).unwrap_or_default());
    let fitting = suffixes.iter().enumerate().find_map(|(index, suffix)| {
        let size = of(index).filter(|size| units >= *size && units.is_multiple_of(*size))?;
        Some(format!("{}{suffix}", units / size))
    });
    fitting.unwrap_or_else(|| units.to_string())
}

/// A suffix as a factor and a power of ten.
fn scale(suffix: &str) -> Option<(u128, i32)> {
    let binary = |n: u32| Some((1024_u128.pow(n), 0));
    match suffix {
        "n" => Some((1, -9)),
        "u" => Some((1, -6)),
        "m" => Some((1, -3)),
        "" => Some((1, 0)),
        "k" => Some((1, 3)),
        "M" => Some((1, 6)),
        "G" => Some((1, 9)),
        "T" => Some((1, 12)),
        "P" => Some((1, 15)),
        "E" => Some((1, 18)),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        _ => {
            let power: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            (-18..=18).contains(&power).then_some((1, power))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the Kubernetes documentation of `Quantity`.
    #[test]
    fn quantities() {
        for (text, expected) in [
            ("1", Some(1000)),
            ("500m", Some(500)),
            ("0.5", Some(500)),
            (".5", Some(500)),
            ("1.", Some(1000)),
            ("100u", Some(1)),
            ("64Mi", Some(64 * 1024 * 1024 * 1000)),
            ("1.5Gi", Some(3 * 512 * 1024 * 1024 * 1000)),
            ("1e3", Some(1_000_000)),
            ("1E", Some(1_000_000_000_000_000_000_000)),
            ("12E2", Some(1_200_000)),
            ("", None),
            ("Mi", None),
            ("1.2.3", None),
            ("-1", None),
            ("1 Gi", None),
            ("1GB", None),
        ] {
            assert_eq!(millis(text), expected, "{text}");
        }
    }

    #[test]
    fn bytes_are_written_as_kubernetes_does() {
        for (bytes, expected) in [
            (0, "0"),
            (1000, "1000"),
            (1024, "1Ki"),
            (1536, "1536"),
            (3 << 19, "1536Ki"),
            (2 << 30, "2Gi"),
            (2112 << 20, "2112Mi"),
            (u64::MAX, "18446744073709551615"),
        ] {
            assert_eq!(binary(bytes), expected);
        }
    }
}
