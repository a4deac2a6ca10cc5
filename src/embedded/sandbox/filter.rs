//! The seccomp filter.

use super::wire::{Failure, Order};

/// Applies the filter.
pub fn apply(_order: &Order) -> Result<bool, Failure> {
    Ok(false)
}
