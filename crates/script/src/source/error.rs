//! What can be wrong with the code of a script, told with the place and the remedy.
//!
//! An error is made where it is found, and it is printed where the user sees it, often on another
//! thread and after the source text is gone. So it carries the line of code with it.

use std::fmt;

/// Longest part of a line of code that is shown; a minified file has lines of megabytes.
const SHOWN_CHARS_MAX: usize = 120;

/// What went wrong, for callers that must choose an exit code or a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceErrorKind {
    /// The text is not JavaScript, TypeScript or JSON.
    Syntax,
    /// No such file, or a folder where a file is needed.
    NotFound,
    /// The file is there and cannot be used: no permission, too large, not UTF-8.
    Unreadable,
    /// A module specifier that means nothing here.
    Unresolved,
    /// A module that exists in k6 and not (or no longer) here.
    Missing,
}

/// Where in a file, with the line itself. Line and column count from one, columns in characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub file: String,
    pub line: u32,
    pub column: u32,
    pub text: String,
}

impl Place {
    /// The place of byte `offset` in `text`.
    pub fn at(file: &str, text: &str, offset: usize) -> Place {
        let (line, column) = line_and_column(text, offset);
        let line_text = text.split('\n').nth(line as usize - 1).unwrap_or("");
        let line_text = line_text.strip_suffix('\r').unwrap_or(line_text).to_owned();
        Place { file: file.to_owned(), line, column, text: line_text }
    }
}

/// Line and column of a byte offset. Only `\n` ends a line, as in QuickJS's own counting.
pub fn line_and_column(text: &str, offset: usize) -> (u32, u32) {
    let mut end = offset.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let before = &text[..end];
    let line = before.bytes().filter(|&byte| byte == b'\n').count() + 1;
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let column = before[line_start..].chars().count() + 1;
    (line as u32, column as u32)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceError {
    pub kind: SourceErrorKind,
    pub message: String,
    pub place: Option<Box<Place>>,
    pub help: Option<String>,
}

impl SourceError {
    pub fn new(kind: SourceErrorKind, message: impl Into<String>) -> SourceError {
        SourceError { kind, message: message.into(), place: None, help: None }
    }

    /// Says where; a place that is known already is nearer to the cause and stays.
    pub fn or_at(mut self, place: Option<Place>) -> SourceError {
        self.place = self.place.or(place.map(Box::new));
        self
    }

    pub fn help(mut self, help: impl Into<String>) -> SourceError {
        self.help = Some(help.into());
        self
    }

    pub fn maybe_help(mut self, help: Option<String>) -> SourceError {
        self.help = help.or(self.help);
        self
    }
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            None => write!(f, "{}", self.message)?,
            Some(place) => {
                writeln!(f, "{}:{}:{}: {}", place.file, place.line, place.column, self.message)?;
                let (shown, caret) = excerpt(&place.text, place.column);
                write!(f, "    {shown}\n    {caret}^")?;
            }
        }
        if let Some(help) = &self.help {
            write!(f, "\n  help: {help}")?;
        }
        Ok(())
    }
}

impl std::error::Error for SourceError {}

/// The part of a line around a column, and the blanks that bring a caret under that column.
fn excerpt(line: &str, column: u32) -> (String, String) {
    let at = column.saturating_sub(1) as usize;
    let skipped = at.saturating_sub(SHOWN_CHARS_MAX * 2 / 3);
    let shown: String = line.chars().skip(skipped).take(SHOWN_CHARS_MAX).collect();
    // Tabs stay tabs, so that the caret stands right whatever their width.
    let mut blanks: String = line
        .chars()
        .skip(skipped)
        .take(at - skipped)
        .map(|c| if c == '\t' { '\t' } else { ' ' })
        .collect();
    // Past the end of the line (an error at the end of the file) the caret follows the text.
    let missing = (at - skipped).saturating_sub(blanks.chars().count());
    blanks.extend(std::iter::repeat_n(' ', missing));
    (shown, blanks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_counts_characters_and_keeps_the_line_without_its_end() {
        let place = Place::at("a.js", "x\r\n\té = ;\r\n", "x\r\n\té = ".len());
        assert_eq!((place.line, place.column, place.text.as_str()), (2, 6, "\té = ;"));
        let error = SourceError::new(SourceErrorKind::Syntax, "bad").or_at(Some(place)).help("do");
        assert_eq!(error.to_string(), "a.js:2:6: bad\n    \té = ;\n    \t    ^\n  help: do");
    }

    #[test]
    fn a_line_of_a_megabyte_is_cut_around_the_column() {
        let line = "a".repeat(500_000) + "!" + &"b".repeat(500_000);
        let (shown, caret) = excerpt(&line, 500_001);
        assert_eq!(shown.chars().count(), SHOWN_CHARS_MAX);
        assert_eq!(shown.chars().nth(caret.len()), Some('!'));
    }

    #[test]
    fn an_offset_inside_a_character_or_past_the_end_does_not_panic() {
        assert_eq!(line_and_column("é", 1), (1, 1));
        assert_eq!(line_and_column("a\n", 99), (2, 1));
    }
}
