//! Plan to [`Permit`]: the Rego bundle, its checks, its evaluation, and the only door to a permit.

mod decision;
mod permit;

pub use decision::Decision;
pub use permit::{Permit, Verdict};
