//! Names that the API server makes up.

use uuid::Uuid;

/// The letters of generated names: no vowels and no look-alikes, as Kubernetes has them.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// How long the given part of a generated name may be.
const MAX_BASE: usize = 58;

/// `base` and five random letters, as for `generateName`.
#[must_use]
pub fn generate(base: &str) -> String {
    let mut number = Uuid::new_v4().as_u128();
    let mut name: String = base.chars().take(MAX_BASE).collect();
    for _ in 0..5 {
        let index = usize::try_from(number % 27).unwrap_or_default();
        number /= 27;
        name.push(LETTERS.get(index).map_or('x', |letter| char::from(*letter)));
    }
    name
}
