//! Landlock.

use super::wire::{Failure, Order};

/// Restricts this process.
pub fn restrict(_order: &Order) -> Result<(bool, bool), Failure> {
    Ok((false, false))
}
