//! Characters that make a file read otherwise to a person than to the engine.
//!
//! The engine takes a NUL for the end of the file, wherever it stands, and drops the rest without a word. To it
//! only a line feed ends a line; where an editor also breaks lines at a lone carriage return or at U+2028, a
//! rule that a reader sees on a line of its own is the tail of a comment. Bidirectional controls show code in
//! another order than it has, and invisible characters make a string that equals nothing. All of them can be
//! written as escapes where a string really needs one.

/// The first such character and its line.
pub(super) fn misleading(text: &str) -> Option<(u32, char)> {
    let mut line = 1_u32;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\n' => line = line.saturating_add(1),
            '\t' => {}
            '\r' if chars.peek() == Some(&'\n') => {}
            c if is_misleading(c) => return Some((line, c)),
            _ => {}
        }
    }
    None
}

fn is_misleading(c: char) -> bool {
    // All of Unicode's Cc, and every white space but the plain one.
    c.is_control() || (c.is_whitespace() && c != ' ') || is_invisible(c)
}

/// Unicode's format characters (Cf) that have no shape of their own, and the letters that are blank.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{00AD}' | '\u{034F}' | '\u{061C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}' | '\u{180E}'
        | '\u{200B}'..='\u{200F}' // zero width, left-to-right and right-to-left marks
        | '\u{202A}'..='\u{202E}' // embeddings and overrides
        | '\u{2060}'..='\u{206F}' // word joiner, isolates, deprecated controls
        | '\u{3164}' | '\u{FEFF}' | '\u{FFA0}' | '\u{FFF9}'..='\u{FFFB}'
        | '\u{1BCA0}'..='\u{1BCA3}' | '\u{1D173}'..='\u{1D17A}'
        | '\u{E0000}'..='\u{E0FFF}') // tags, and variation selectors that stand for nothing here
}
