//! Text from a cluster, made safe to show: nothing in it moves a cursor, hides or reorders what a reader sees.
//!
//! Logs, events and names are written by whoever runs a workload. A terminal obeys escape sequences in them,
//! and a model reads characters that a person cannot see (bidirectional controls, zero-width characters, the
//! tag block). kubectl passes nearly all of them on (CVE-2021-25743 was fixed for tables and `describe` only).
//!
//! Each such character is replaced by its escape in Rust's spelling, `\u{202e}`, and counted. Two exceptions,
//! because they are everywhere and carry nothing: a colour sequence (SGR) is left out, and a carriage return
//! becomes a line break, or nothing before one. ZWJ and ZWNJ are replaced too: joined emoji and some scripts
//! fall apart into their parts, which is borne for text that must be evidence.

/// A text without dangerous characters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cleaned {
    /// The text. Cleaning it again changes nothing.
    pub text: String,
    /// How many characters (or invalid pieces of UTF-8, or colour sequences) were replaced or left out.
    pub replaced: u64,
}

/// Cleans a text.
#[must_use]
pub fn clean(text: &str) -> Cleaned {
    if text.bytes().all(|byte| matches!(byte, b'\n' | b'\t' | b' '..=b'~')) {
        return Cleaned { text: text.to_owned(), replaced: 0 };
    }
    let mut cleaned = Cleaned { text: String::with_capacity(text.len()), replaced: 0 };
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '\r' => {
                if !rest.as_str().starts_with('\n') {
                    cleaned.text.push('\n');
                    cleaned.replaced += 1;
                }
            }
            '\u{1b}' => {
                cleaned.replaced += 1;
                match after_colour(rest.as_str()) {
                    Some(after) => rest = after.chars(),
                    None => cleaned.text.extend(c.escape_unicode()),
                }
            }
            c if is_dangerous(c) => {
                cleaned.text.extend(c.escape_unicode());
                cleaned.replaced += 1;
            }
            c => cleaned.text.push(c),
        }
    }
    cleaned
}

/// Decodes and cleans. Each invalid piece becomes U+FFFD (as the Unicode Standard, section 3.9, recommends).
#[must_use]
pub fn clean_bytes(bytes: &[u8]) -> Cleaned {
    let invalid = bytes.utf8_chunks().filter(|chunk| !chunk.invalid().is_empty()).count();
    let mut cleaned = clean(&String::from_utf8_lossy(bytes));
    cleaned.replaced += invalid as u64;
    cleaned
}

/// What follows a colour sequence whose escape character was just read: `[`, parameters, `m` (ECMA-48, SGR).
fn after_colour(text: &str) -> Option<&str> {
    /// Longer parameters than any program writes are no colour.
    const MOST: usize = 64;
    let parameters = text.strip_prefix('[')?;
    let after = parameters.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';' || c == ':');
    (parameters.len() - after.len() <= MOST).then_some(after)?.strip_prefix('m')
}

/// Whether a reader cannot see `c`, or it changes how its neighbours are seen.
pub(crate) fn is_dangerous(c: char) -> bool {
    let code = u32::from(c);
    match c {
        '\n' | '\t' => false,
        // C0, DEL, C1.
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => true,
        // Bidirectional controls.
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        // Zero-width characters, invisible operators, deprecated format characters, the byte order mark.
        '\u{180e}' | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}' => true,
        '\u{feff}' => true,
        // Line and paragraph separators: line breaks to some readers only.
        '\u{2028}' | '\u{2029}' => true,
        // Interlinear annotations, tags, the supplement of variation selectors.
        '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}' | '\u{e0100}'..='\u{e01ef}' => true,
        // Noncharacters.
        '\u{fdd0}'..='\u{fdef}' => true,
        _ => code & 0xfffe == 0xfffe,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop, proptest};
    use proptest::{prop_assert, prop_assert_eq};

    use super::{Cleaned, clean, clean_bytes, is_dangerous};

    #[test]
    fn dangerous_characters_become_visible() {
        let table = [
            ("", "", 0),
            ("plain\ttext\nä 漢 🦀 \u{fe0f}\u{fffd}", "plain\ttext\nä 漢 🦀 \u{fe0f}\u{fffd}", 0),
            ("a\0b\u{7}c\u{7f}", "a\\u{0}b\\u{7}c\\u{7f}", 3),
            ("\u{9b}31m", "\\u{9b}31m", 1),
            ("one\r\ntwo\rthree\r", "one\ntwo\nthree\n", 2),
            // Colours carry nothing.
            ("\u{1b}[1;31mred\u{1b}[0m \u{1b}[m", "red ", 3),
            // The clipboard (OSC 52), a link (OSC 8), the cursor, a device control string.
            ("\u{1b}]52;c;YQ==\u{7}", "\\u{1b}]52;c;YQ==\\u{7}", 2),
            ("\u{1b}]8;;http://a\u{1b}\\x", "\\u{1b}]8;;http://a\\u{1b}\\x", 2),
            ("\u{1b}[2J\u{1b}P\u{1b}", "\\u{1b}[2J\\u{1b}P\\u{1b}", 3),
            // What is left around a colour does not become one.
            ("\u{1b}\u{1b}[0m[31mx", "\\u{1b}[31mx", 2),
            ("admin\u{202e}txt.exe\u{2066}", "admin\\u{202e}txt.exe\\u{2066}", 2),
            ("a\u{200b}b\u{200d}c\u{2060}\u{feff}", "a\\u{200b}b\\u{200d}c\\u{2060}\\u{feff}", 4),
            (
                "\u{e0041}\u{e01ef}\u{fffa}\u{fdd0}\u{1ffff}",
                "\\u{e0041}\\u{e01ef}\\u{fffa}\\u{fdd0}\\u{1ffff}",
                5,
            ),
        ];
        for (text, wanted, replaced) in table {
            assert_eq!(clean(text), Cleaned { text: wanted.to_owned(), replaced }, "{text:?}");
        }
    }

    #[test]
    fn bytes_that_are_not_text_are_counted() {
        assert_eq!(
            clean_bytes(b"a\xffb\xc3"),
            Cleaned { text: "a\u{fffd}b\u{fffd}".to_owned(), replaced: 2 }
        );
        assert_eq!(clean_bytes(b"a\xe2\x80\xaeb"), Cleaned { text: "a\\u{202e}b".to_owned(), replaced: 1 });
    }

    /// The ranges that must never leave, written apart from the code.
    fn forbidden(c: char) -> bool {
        let ranges = [
            (0x00, 0x08),
            (0x0b, 0x1f),
            (0x7f, 0x9f),
            (0x61c, 0x61c),
            (0x200b, 0x200f),
            (0x202a, 0x202e),
            (0x2060, 0x2060),
            (0x2066, 0x2069),
            (0xfeff, 0xfeff),
            (0xfff9, 0xfffb),
            (0xfdd0, 0xfdef),
            (0xe0000, 0xe007f),
            (0xe0100, 0xe01ef),
        ];
        let code = u32::from(c);
        ranges.iter().any(|(from, to)| (*from..=*to).contains(&code)) || code % 0x10000 >= 0xfffe
    }

    #[test]
    fn every_forbidden_character_is_dangerous() {
        for c in ('\0'..=char::MAX).filter(|c| forbidden(*c)) {
            assert!(is_dangerous(c), "{c:?}");
            assert!(!clean(&c.to_string()).text.contains(c), "{c:?}");
        }
    }

    proptest! {
        #![proptest_config(proptest::test_runner::Config { failure_persistence: None, ..Default::default() })]

        #[test]
        fn nothing_forbidden_is_left_and_twice_is_once(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let cleaned = clean_bytes(&bytes);
            prop_assert!(!cleaned.text.chars().any(forbidden));
            prop_assert_eq!(&clean(&cleaned.text), &Cleaned { text: cleaned.text.clone(), replaced: 0 });
        }

        #[test]
        fn the_same_holds_near_sequences(text in "[\u{1b}\\[\\]0-9;:m\r\n\u{9b}\u{202e}\u{200b}\u{e0041}aä]{0,60}") {
            let cleaned = clean(&text);
            prop_assert!(!cleaned.text.chars().any(forbidden));
            prop_assert_eq!(&clean(&cleaned.text).text, &cleaned.text);
            prop_assert_eq!(cleaned.replaced == 0, cleaned.text == text.replace("\r\n", "\n"));
        }
    }
}
