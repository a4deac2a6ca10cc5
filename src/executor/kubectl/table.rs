//! Aligned columns and ages, as kubectl prints them.

use jiff::Timestamp;

/// Rows under a heading, each column as wide as its widest cell, the last one as it comes.
pub(super) fn table(heading: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = heading.iter().map(|cell| width(cell)).collect();
    for row in rows {
        for (width_so_far, cell) in widths.iter_mut().zip(row) {
            *width_so_far = (*width_so_far).max(width(cell));
        }
    }
    let mut text = String::new();
    let heading: Vec<String> = heading.iter().map(|cell| (*cell).to_owned()).collect();
    for row in std::iter::once(&heading).chain(rows) {
        let mut line = String::new();
        for (cell, width_of_column) in row.iter().zip(&widths) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', width_of_column.saturating_sub(width(cell)) + 3));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn width(cell: &str) -> usize {
    cell.chars().count()
}

/// A stranger's text as one cell: no line of it can pass for a row.
pub(super) fn cell(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    if words.is_empty() { "<none>".to_owned() } else { words.join(" ") }
}

/// How long ago `then` was.
pub(super) fn age(then: Option<Timestamp>, now: Timestamp) -> String {
    match then {
        Some(then) => duration(now.as_second().saturating_sub(then.as_second())),
        None => "<unknown>".to_owned(),
    }
}

/// Seconds in the two largest units that matter, as kubectl's ages are: `90s`, `2m5s`, `5h10m`, `3d4h`, `400d`.
fn duration(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    let two = |large: i64, name: &str, small: i64, small_name: &str| match seconds % large / small {
        0 => format!("{}{name}", seconds / large),
        rest => format!("{}{name}{rest}{small_name}", seconds / large),
    };
    match seconds {
        // Clocks of two machines differ by a little.
        i64::MIN..0 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => two(MINUTE, "m", 1, "s"),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => two(HOUR, "h", MINUTE, "m"),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => two(DAY, "d", HOUR, "h"),
        _ if seconds < 2 * YEAR => format!("{}d", seconds / DAY),
        _ if seconds < 8 * YEAR => two(YEAR, "y", DAY, "d"),
        _ => format!("{}y", seconds / YEAR),
    }
}

#[cfg(test)]
mod tests {
    use super::{cell, duration, table};

    /// Values of `kubectl get`, by `HumanDuration` of k8s.io/apimachinery.
    #[test]
    fn ages_are_kubectls() {
        let table = [
            (-5, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (599, "9m59s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (11_160, "3h6m"),
            (28_800, "8h"),
            (172_799, "47h"),
            (172_800, "2d"),
            (190_000, "2d4h"),
            (691_200, "8d"),
            (63_071_999, "729d"),
            (63_072_000, "2y"),
            (70_000_000, "2y80d"),
            (252_288_000, "8y"),
        ];
        for (seconds, text) in table {
            assert_eq!(duration(seconds), text, "{seconds}");
        }
    }

    #[test]
    fn columns_are_aligned_and_a_cell_is_one_line() {
        let rows = vec![vec!["ä".to_owned(), "1".to_owned()], vec!["longer".to_owned(), cell("a\n b\t")]];
        assert_eq!(table(&["NAME", "X"], &rows), "NAME     X\nä        1\nlonger   a b\n");
        assert_eq!(cell(" \n"), "<none>");
    }
}
