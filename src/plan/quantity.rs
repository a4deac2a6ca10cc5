//! Kubernetes quantities (`500m`, `1.5Gi`, `2e3`) as exact integers: millicores and bytes.
//!
//! The grammar is that of `k8s.io/apimachinery/pkg/api/resource`: a sign, a decimal number, and one suffix
//! of n, u, m, k, M, G, T, P, E; Ki, Mi, Gi, Ti, Pi, Ei; or an exponent (`e3`, `E-3`). Fractions of the unit
//! are rounded up, as there. Where Kubernetes caps a number beyond 2^63-1, it is refused here.

#[cfg(test)]
mod tests;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use thiserror::Error;

use crate::plan::quote;

/// The largest amount that Kubernetes can hold, in any unit.
const MAX: u128 = i64::MAX as u128;

/// A quantity that cannot be used. The caller knows which field it came from.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum QuantityError {
    /// It does not fit the grammar.
    #[error("{} is not a Kubernetes quantity; write a number with an optional suffix, such as `500m` or `256Mi`", quote(.0))]
    Syntax(String),
    /// The suffix is one that people take for another.
    #[error("{} is not a Kubernetes quantity; its suffix should be {instead}", quote(.text))]
    Suffix {
        /// The quantity as written.
        text: String,
        /// What Kubernetes calls the suffix that was meant.
        instead: &'static str,
    },
    /// It is below zero.
    #[error("{} is negative; write an amount above zero", quote(.0))]
    Negative(String),
    /// It is zero.
    #[error("{} is zero; write an amount above zero", quote(.0))]
    Zero(String),
    /// It is above 2^63-1 of the unit.
    #[error("{} is more than Kubernetes can hold; write a smaller amount", quote(.0))]
    TooLarge(String),
}

/// A cpu quantity in millicores, rounded up.
///
/// # Errors
/// A [`QuantityError`] when it does not parse, is not above zero, or is above 2^63-1 millicores.
pub fn cpu_millis(text: &str) -> Result<u64, QuantityError> {
    amount(text, 3)
}

/// A memory quantity in bytes, rounded up.
///
/// # Errors
/// A [`QuantityError`] when it does not parse, is not above zero, or is above 2^63-1 bytes.
pub fn memory_bytes(text: &str) -> Result<u64, QuantityError> {
    amount(text, 0)
}

/// Millicores as a quantity: `500m`, `2`.
#[must_use]
pub fn cpu_quantity(millis: u64) -> Quantity {
    if millis.is_multiple_of(1000) {
        Quantity((millis / 1000).to_string())
    } else {
        Quantity(format!("{millis}m"))
    }
}

/// Bytes as a quantity, in the largest binary unit that is exact: `256Mi`, `1000`.
#[must_use]
pub fn memory_quantity(bytes: u64) -> Quantity {
    const UNITS: [(u64, &str); 6] = [(60, "Ei"), (50, "Pi"), (40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")];
    let unit = UNITS.iter().find(|(shift, _)| bytes != 0 && bytes.is_multiple_of(1 << shift));
    match unit {
        Some((shift, suffix)) => Quantity(format!("{}{suffix}", bytes >> shift)),
        None => Quantity(bytes.to_string()),
    }
}

/// The amount in units of 10^-`decimals`, rounded up.
fn amount(text: &str, decimals: i64) -> Result<u64, QuantityError> {
    let parts = split(text).ok_or_else(|| QuantityError::Syntax(text.to_owned()))?;
    let scale = scale(parts.suffix).ok_or_else(|| suffix_error(text, parts.suffix))?;
    if parts.is_zero() {
        return Err(QuantityError::Zero(text.to_owned()));
    }
    if parts.negative {
        return Err(QuantityError::Negative(text.to_owned()));
    }
    parts
        .scaled(scale.power_of_ten.saturating_add(decimals), scale.power_of_two)
        .and_then(|value| u64::try_from(value).ok())
        .ok_or_else(|| QuantityError::TooLarge(text.to_owned()))
}

/// A quantity taken apart: `-`, `1`, `5`, `Gi`.
struct Parts<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

struct Scale {
    power_of_ten: i64,
    power_of_two: u32,
}

impl Parts<'_> {
    fn is_zero(&self) -> bool {
        self.digits().all(|digit| digit == 0)
    }

    fn digits(&self) -> impl Iterator<Item = u128> {
        self.whole.bytes().chain(self.fraction.bytes()).map(|b| u128::from(b.saturating_sub(b'0')))
    }

    /// `digits * 10^power_of_ten * 2^power_of_two`, rounded up; `None` beyond [`MAX`].
    ///
    /// Exact for any number of digits: the part before the (shifted) decimal point is multiplied as an
    /// integer, the part behind it digit by digit from the right, as on paper, and every digit that
    /// falls below the unit only says whether to round up.
    fn scaled(&self, power_of_ten: i64, power_of_two: u32) -> Option<u128> {
        let digits: Vec<u128> = self.digits().skip_while(|digit| *digit == 0).collect();
        let skipped = self.digits().take_while(|digit| *digit == 0).count();
        // How many of `digits` stand before the decimal point; beyond either bound the answer is fixed.
        let point = i64::try_from(self.whole.len())
            .unwrap_or(i64::MAX)
            .saturating_sub(i64::try_from(skipped).unwrap_or(i64::MAX))
            .saturating_add(power_of_ten);
        if point > 20 {
            return None;
        }
        if point < -40 {
            return Some(1);
        }
        let before = usize::try_from(point).unwrap_or(0);
        let zeros = usize::try_from(point.saturating_neg()).unwrap_or(0);
        let factor = 1_u128 << power_of_two;

        let whole = digits
            .iter()
            .copied()
            .chain(std::iter::repeat(0))
            .take(before)
            .fold(0_u128, |sum, digit| sum * 10 + digit);
        let behind = std::iter::repeat_n(0, zeros).chain(digits.iter().skip(before).copied());
        let behind: Vec<u128> = behind.collect();
        let mut carry = 0_u128;
        let mut inexact = false;
        for digit in behind.iter().rev() {
            let product = digit * factor + carry;
            inexact |= !product.is_multiple_of(10);
            carry = product / 10;
        }
        let value = whole.checked_mul(factor)?.checked_add(carry)?.checked_add(u128::from(inexact))?;
        (value <= MAX).then_some(value)
    }
}

/// `None` when the text is no number with something behind it.
fn split(text: &str) -> Option<Parts<'_>> {
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, rest) = leading_digits(unsigned);
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => leading_digits(rest),
        None => ("", rest),
    };
    let has_digits = !(whole.is_empty() && fraction.is_empty());
    has_digits.then_some(Parts { negative, whole, fraction, suffix })
}

fn leading_digits(text: &str) -> (&str, &str) {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    text.split_at_checked(text.len().saturating_sub(rest.len())).unwrap_or((text, ""))
}

fn scale(suffix: &str) -> Option<Scale> {
    let (power_of_ten, power_of_two) = match suffix {
        "n" => (-9, 0),
        "u" => (-6, 0),
        "m" => (-3, 0),
        "" => (0, 0),
        "k" => (3, 0),
        "M" => (6, 0),
        "G" => (9, 0),
        "T" => (12, 0),
        "P" => (15, 0),
        "E" => (18, 0),
        "Ki" => (0, 10),
        "Mi" => (0, 20),
        "Gi" => (0, 30),
        "Ti" => (0, 40),
        "Pi" => (0, 50),
        "Ei" => (0, 60),
        _ => (exponent(suffix)?, 0),
    };
    Some(Scale { power_of_ten, power_of_two })
}

/// `e3`, `E+3`, `e-3`.
fn exponent(suffix: &str) -> Option<i64> {
    let digits = suffix.strip_prefix(['e', 'E'])?;
    let unsigned = digits.strip_prefix(['+', '-']).unwrap_or(digits);
    let plain = !unsigned.is_empty() && unsigned.bytes().all(|b| b.is_ascii_digit());
    if plain { digits.parse().ok() } else { None }
}

/// The mistakes that are common enough to answer by name.
fn suffix_error(text: &str, suffix: &str) -> QuantityError {
    let instead = match suffix {
        "K" | "KB" | "kB" | "kb" => "`k` (1000) or `Ki` (1024)",
        "MB" | "mb" => "`M` (1000^2) or `Mi` (1024^2)",
        "GB" | "gb" | "g" => "`G` (1000^3) or `Gi` (1024^3)",
        "KiB" | "kib" | "ki" => "`Ki`",
        "MiB" | "mib" | "mi" => "`Mi`",
        "GiB" | "gib" | "gi" => "`Gi`",
        _ => return QuantityError::Syntax(text.to_owned()),
    };
    QuantityError::Suffix { text: text.to_owned(), instead }
}
