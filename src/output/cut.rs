//! Cutting a text to a number of characters, by the end that matters less.

/// The part of a text that was kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// What was kept.
    pub text: String,
    /// How many characters were not.
    pub omitted: u64,
}

/// Keeps the first `limit` characters; where that leaves at least half of them, whole lines.
#[must_use]
pub fn keep_start(text: &str, limit: usize) -> Cut {
    let Some((at, _)) = text.char_indices().nth(limit) else {
        return Cut { text: text.to_owned(), omitted: 0 };
    };
    let (mut kept, _) = text.split_at(at);
    if let Some((lines, _)) = kept.rsplit_once('\n')
        && lines.len() >= kept.len() / 2
    {
        kept = lines;
    }
    Cut { text: kept.to_owned(), omitted: difference(text, kept) }
}

/// Keeps the last `limit` characters; where that leaves at least half of them, whole lines.
#[must_use]
pub fn keep_end(text: &str, limit: usize) -> Cut {
    let too_many = text.chars().count().saturating_sub(limit);
    if too_many == 0 {
        return Cut { text: text.to_owned(), omitted: 0 };
    }
    let at = text.char_indices().nth(too_many).map_or(text.len(), |(at, _)| at);
    let (before, mut kept) = text.split_at(at);
    if !before.ends_with('\n')
        && let Some((_, lines)) = kept.split_once('\n')
        && lines.len() >= kept.len() / 2
    {
        kept = lines;
    }
    Cut { text: kept.to_owned(), omitted: difference(text, kept) }
}

fn difference(text: &str, kept: &str) -> u64 {
    text.chars().count().saturating_sub(kept.chars().count()) as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::proptest;
    use proptest::{prop_assert, prop_assert_eq};

    use super::{Cut, keep_end, keep_start};

    fn cut(text: &str, omitted: u64) -> Cut {
        Cut { text: text.to_owned(), omitted }
    }

    #[test]
    fn the_limit_counts_characters_and_lines_stay_whole() {
        assert_eq!(keep_start("ääää", 4), cut("ääää", 0));
        assert_eq!(keep_start("ääää", 3), cut("äää", 1));
        assert_eq!(keep_start("one\ntwo\nthree\n", 9), cut("one\ntwo", 7));
        assert_eq!(keep_start("a\nbbbbbbbb", 8), cut("a\nbbbbbb", 2), "one line is most of it");
        assert_eq!(keep_end("ääää", 4), cut("ääää", 0));
        assert_eq!(keep_end("ääää", 3), cut("äää", 1));
        assert_eq!(keep_end("one\ntwo\nthree\n", 12), cut("two\nthree\n", 4));
        assert_eq!(keep_end("one\ntwo\nthree\n", 10), cut("two\nthree\n", 4), "it falls between lines");
        assert_eq!(keep_end("bbbbbbbb\na", 8), cut("bbbbbb\na", 2));
        assert_eq!(keep_end("abc", 0), cut("", 3));
        assert_eq!(keep_start("abc", 0), cut("", 3));
    }

    proptest! {
        #![proptest_config(proptest::test_runner::Config { failure_persistence: None, ..Default::default() })]

        #[test]
        fn what_is_kept_is_an_end_within_the_limit(text in "[aä🦀\n]{0,60}", limit in 0_usize..70) {
            let (start, end) = (keep_start(&text, limit), keep_end(&text, limit));
            prop_assert!(text.starts_with(&start.text) && text.ends_with(&end.text));
            for Cut { text: kept, omitted } in [start, end] {
                prop_assert!(kept.chars().count() <= limit);
                prop_assert_eq!(kept.chars().count() as u64 + omitted, text.chars().count() as u64);
                prop_assert!(omitted > 0 || kept == text);
            }
        }
    }
}
