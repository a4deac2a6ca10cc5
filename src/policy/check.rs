//! What a bundle must not hold, looked for in its text and its syntax tree before the engine may use it.

use regorus::unstable::{Module, Ref};

use crate::policy::error::LoadError;

/// Checks of the bare text, before it is parsed.
pub(in crate::policy) fn text(_file: &str, _text: &str) -> Result<(), LoadError> {
    Ok(())
}

/// Checks across all modules.
pub(in crate::policy) fn modules(_modules: &[Ref<Module>]) -> Result<(), LoadError> {
    Ok(())
}
