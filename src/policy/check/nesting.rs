//! How deep a module nests its brackets. The engine's parser takes twice as long for each level: 16 levels of
//! lists and objects in turn take seconds.

/// Rules that people write stay below this.
pub(super) const MAX_DEPTH: usize = 10;

/// A bracket at depth n costs 2^n. Enough for 1,000 brackets at the full depth, and for many more that are
/// not so deep.
const MAX_COST: u64 = 1 << 20;

/// The line at which `text` nests deeper than [`MAX_DEPTH`], or has nested so often that parsing it would take
/// long all the same. Parentheses cost nothing.
///
/// A scan that knows strings and comments and nothing else. What is not Rego gets past it and fails in the
/// parser.
pub(super) fn too_deep(text: &str) -> Option<u32> {
    let mut depth = 0_usize;
    let mut cost = 0_u64;
    let mut line = 1_u32;
    let mut chars = text.chars();
    let mut inside = Inside::Code;
    while let Some(c) = chars.next() {
        if c == '\n' {
            line = line.saturating_add(1);
        }
        inside = match (inside, c) {
            (Inside::Code, '#') => Inside::Comment,
            (Inside::Code, '"') => Inside::String,
            (Inside::Code, '`') => Inside::RawString,
            (Inside::Code, '[' | '{') => {
                depth = depth.saturating_add(1);
                cost = cost.saturating_add(1 << depth.min(MAX_DEPTH));
                if depth > MAX_DEPTH || cost > MAX_COST {
                    return Some(line);
                }
                Inside::Code
            }
            (Inside::Code, ']' | '}') => {
                depth = depth.saturating_sub(1);
                Inside::Code
            }
            // A string ends with its line in any case: the parser allows no line break in it.
            (Inside::Comment | Inside::String, '\n') | (Inside::String, '"') | (Inside::RawString, '`') => {
                Inside::Code
            }
            (Inside::String, '\\') => {
                chars.next();
                Inside::String
            }
            (inside, _) => inside,
        };
    }
    None
}

#[derive(Clone, Copy)]
enum Inside {
    Code,
    Comment,
    String,
    RawString,
}
