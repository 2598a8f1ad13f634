//! Characters that look like a blank and are none: the no-break space of web pages and chats, and
//! its kin. No format takes them for blanks, so that a key or a value has them in it.

use crate::problem::Finding;
use crate::tree::Lines;

const ODD: [(char, &str); 8] = [
    ('\u{a0}', "a no-break space"),
    ('\u{2007}', "a figure space"),
    ('\u{2009}', "a thin space"),
    ('\u{200b}', "a zero-width space"),
    ('\u{202f}', "a narrow no-break space"),
    ('\u{2060}', "a word joiner"),
    ('\u{3000}', "an ideographic space"),
    ('\u{feff}', "a byte order mark"),
];

/// The first of them in a text: where, and what to say.
pub fn find(text: &str) -> Option<(usize, String)> {
    let odd = |c: char| ODD.iter().find(|(known, _)| *known == c);
    text.char_indices().find_map(|(at, c)| {
        let (_, name) = odd(c)?;
        Some((at, format!("{name} (U+{:04X}) stands here", c as u32)))
    })
}

pub const HELP: &str = "write a blank in its place; pages and chats make such characters of blanks";

/// The one that may have kept a file from being read: in this line or the one before it, outside of
/// quotes and comments.
pub fn near(text: &str, line: u32) -> Option<Finding> {
    let lines = Lines::new(text);
    [line, line.saturating_sub(1)].into_iter().filter(|line| *line > 0).find_map(|number| {
        let line = lines.line(number);
        let line = line.split(" #").next().unwrap_or_default();
        let (at, message) = find(line)?;
        let quoted = |quote: char| line[..at].matches(quote).count() % 2 == 1;
        if quoted('"') || quoted('\'') {
            return None;
        }
        let start = lines.start(number)? + at;
        let width = line[at..].chars().next().map_or(1, char::len_utf8);
        Some(Finding::new(lines.place(start, start + width), message).help(HELP))
    })
}
