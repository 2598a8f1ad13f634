//! Lines for terminals that are too narrow for them.
//!
//! A number that is cut in the middle is a wrong number: `20.8ms` must not become `20.8m`. So a
//! part of a line is shown whole or not at all; only words without digits are cut, with a mark.

use ratatui::text::{Line, Span};
use report::format;

/// The parts of `line` that fit in `width` cells, from the left; what does not fit is left out with
/// all that follows.
pub(crate) fn whole_parts(line: Line<'static>, width: usize) -> Line<'static> {
    if line.width() <= width {
        return line;
    }
    let style = line.style;
    let mut room = width;
    let mut kept: Vec<Span<'static>> = Vec::new();
    for span in line.spans {
        if span.width() <= room {
            room -= span.width();
            kept.push(span);
            continue;
        }
        let has_number = span.content.chars().any(|c| c.is_ascii_digit());
        if !has_number && room > 1 {
            kept.push(Span::styled(format::fit(&span.content, room), span.style));
        }
        break;
    }
    Line::from(kept).style(style)
}

/// As many words of `text` as fit, the cut marked; for sentences, whose numbers are words of them.
pub(crate) fn whole_words(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut out = String::new();
    for word in text.split(' ') {
        // A blank before the word, and one and the mark after it.
        if out.chars().count() + word.chars().count() + 3 > width {
            break;
        }
        if !out.is_empty() {
            out.push(' ');
        }
        out += word;
    }
    match out.is_empty() {
        true => format::fit(text, width),
        false => out + " …",
    }
}

/// Columns of a table beside its labels, as they fit: `true` for each that is shown. Those named
/// first in `dispensable` go first.
pub(crate) fn columns(widths: &[usize], dispensable: &[usize], room: usize) -> Vec<bool> {
    let mut shown = vec![true; widths.len()];
    for column in dispensable {
        let needed: usize =
            widths.iter().zip(&shown).filter(|(_, shown)| **shown).map(|(w, _)| w + 1).sum();
        if needed <= room {
            break;
        }
        shown[*column] = false;
    }
    shown
}
