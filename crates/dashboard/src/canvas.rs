//! Draws a buffer in place, below what is already on the screen.
//!
//! ratatui's own inline viewport asks the terminal where its cursor is, and the question goes to
//! standard output: with `volley run ... > file` it lands in the file and nobody answers. So
//! nothing is asked here: all movement is relative to the last line drawn, and it works on either
//! stream.
//!
//! ```text
//! $ volley run shop.yaml
//! ┌ first line      ◀─ "up by height - 1" leads here
//! │ ...
//! └ last line       ◀─ the cursor rests here, in the first column, between frames
//! ```
//!
//! Only lines that changed are written, inside one synchronised update, so nothing flickers.

use std::fmt::Write as _;
use std::io::{self, Write};

use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Span;

use crate::words::harmless;

pub(crate) struct Canvas<W> {
    out: W,
    color: bool,
    /// What stands on the screen: text with its colour codes, and how wide it is.
    drawn: Vec<(String, usize)>,
}

impl<W: Write> Canvas<W> {
    pub(crate) fn new(out: W, color: bool) -> Canvas<W> {
        Canvas { out, color, drawn: Vec::new() }
    }

    /// Does nothing if the screen shows this already.
    pub(crate) fn draw(&mut self, buffer: &Buffer) -> io::Result<()> {
        let height = buffer.area.height;
        let lines: Vec<_> = (0..height).map(|y| render_row(buffer, y, self.color)).collect();
        if lines == self.drawn {
            return Ok(());
        }
        let mut text = String::from("\x1b[?2026h");
        text += &to_top(self.drawn.len());
        for (i, line) in lines.iter().enumerate() {
            if i > 0 {
                text += "\r\n";
            }
            if self.drawn.get(i) != Some(line) {
                text += &line.0;
                text += "\x1b[K";
            }
        }
        if lines.len() < self.drawn.len() {
            // From the end of the last line: what is below belongs to the old picture.
            text += "\x1b[J";
        }
        text += "\r\x1b[?2026l";
        self.drawn = lines;
        self.write(&text)
    }

    /// Takes the picture away; the next output starts where it began.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        if self.drawn.is_empty() {
            return Ok(());
        }
        let text = to_top(self.drawn.len()) + "\x1b[J";
        self.drawn.clear();
        self.write(&text)
    }

    /// Puts text above the picture, where it scrolls away like any other; the picture has to be
    /// drawn anew.
    pub(crate) fn above(&mut self, texts: &[String]) -> io::Result<()> {
        let mut out = String::from("\x1b[?2026h");
        out += &to_top(self.drawn.len());
        // Long lines are broken here, as everywhere but in the picture.
        out += "\x1b[J\x1b[?7h";
        for row in texts.iter().flat_map(|text| text.lines()) {
            out += &harmless(row);
            out += "\x1b[0m\r\n";
        }
        out += "\x1b[?7l\x1b[?2026l";
        self.drawn.clear();
        self.write(&out)
    }

    /// A narrower terminal has broken long lines in two: clear as many rows as they take now.
    pub(crate) fn resized(&mut self, width: u16) -> io::Result<()> {
        let width = usize::from(width).max(1);
        // The cursor is in the first column, so on the first piece of the last line.
        let above = self.drawn.iter().rev().skip(1);
        let rows: usize = above.map(|(_, used)| used.div_ceil(width).max(1)).sum();
        let text = to_top(rows + 1) + "\x1b[J";
        self.drawn.clear();
        self.write(&text)
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }
}

fn to_top(rows: usize) -> String {
    match rows {
        0 | 1 => "\r".to_owned(),
        rows => format!("\r\x1b[{}A", rows - 1),
    }
}

/// One row without the blanks at its end, so that a shrinking terminal has little to break.
fn render_row(buffer: &Buffer, y: u16, color: bool) -> (String, usize) {
    let (mut text, mut kept, mut used) = (String::new(), 0, 0);
    let mut kept_style = Style::default();
    let mut style = Style::default();
    let mut x = 0;
    while x < buffer.area.width {
        let cell = &buffer[(x, y)];
        if color && cell.style() != style {
            style = cell.style();
            text += &codes(style);
        }
        let symbol = cell.symbol();
        text += symbol;
        let width = if symbol.is_ascii() { 1 } else { Span::raw(symbol).width().max(1) as u16 };
        x += width;
        let reversed = color && style.add_modifier.contains(Modifier::REVERSED);
        if symbol != " " || reversed {
            (kept, used, kept_style) = (text.len(), usize::from(x), style);
        }
    }
    text.truncate(kept);
    if color && codes(kept_style) != codes(Style::default()) {
        text += "\x1b[0m";
    }
    (text, used)
}

/// Only what the screen uses: the sixteen colours follow the user's own theme.
fn codes(style: Style) -> String {
    let mut out = String::from("\x1b[0");
    for (modifier, code) in [(Modifier::BOLD, 1), (Modifier::DIM, 2), (Modifier::REVERSED, 7)] {
        if style.add_modifier.contains(modifier) {
            let _ = write!(out, ";{code}");
        }
    }
    let foreground = match style.fg {
        Some(Color::Red) => Some(31),
        Some(Color::Green) => Some(32),
        Some(Color::Yellow) => Some(33),
        Some(Color::Cyan) => Some(36),
        _ => None,
    };
    if let Some(code) = foreground {
        let _ = write!(out, ";{code}");
    }
    out.push('m');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(canvas: &mut Canvas<Vec<u8>>) -> String {
        String::from_utf8(std::mem::take(&mut canvas.out)).unwrap()
    }

    #[test]
    fn nothing_is_written_when_nothing_changed() {
        let mut canvas = Canvas::new(Vec::new(), false);
        let buffer = Buffer::with_lines(["one", "two"]);
        canvas.draw(&buffer).unwrap();
        assert_eq!(drawn(&mut canvas), "\x1b[?2026h\rone\x1b[K\r\ntwo\x1b[K\r\x1b[?2026l");
        canvas.draw(&buffer).unwrap();
        assert_eq!(drawn(&mut canvas), "");
    }

    #[test]
    fn only_changed_lines_are_written_again_and_lines_too_many_removed() {
        let mut canvas = Canvas::new(Vec::new(), false);
        canvas.draw(&Buffer::with_lines(["one", "two", "three"])).unwrap();
        drawn(&mut canvas);
        canvas.draw(&Buffer::with_lines(["one", "2"])).unwrap();
        assert_eq!(drawn(&mut canvas), "\x1b[?2026h\r\x1b[2A\r\n2\x1b[K\x1b[J\r\x1b[?2026l");
        canvas.clear().unwrap();
        assert_eq!(drawn(&mut canvas), "\r\x1b[1A\x1b[J");
    }

    #[test]
    fn what_is_said_stands_above_the_picture() {
        let mut canvas = Canvas::new(Vec::new(), false);
        canvas.draw(&Buffer::with_lines(["one", "two"])).unwrap();
        drawn(&mut canvas);
        canvas.above(&["said\nmore\n".to_owned()]).unwrap();
        let said = "\r\x1b[1A\x1b[J\x1b[?7hsaid\x1b[0m\r\nmore\x1b[0m\r\n\x1b[?7l";
        assert_eq!(drawn(&mut canvas), format!("\x1b[?2026h{said}\x1b[?2026l"));
        canvas.draw(&Buffer::with_lines(["one", "two"])).unwrap();
        assert!(drawn(&mut canvas).contains("one"), "all of it is drawn anew");
    }

    #[test]
    fn after_shrinking_the_rows_of_broken_lines_are_cleared_too() {
        let mut canvas = Canvas::new(Vec::new(), false);
        canvas.draw(&Buffer::with_lines(["abcdefghij", "two"])).unwrap();
        drawn(&mut canvas);
        canvas.resized(4).unwrap();
        assert_eq!(drawn(&mut canvas), "\r\x1b[3A\x1b[J");
    }

    #[test]
    fn colour_codes_appear_only_when_asked_for_and_end_with_the_line() {
        let mut buffer = Buffer::with_lines(["ab  "]);
        buffer.set_string(0, 0, "a", Style::new().fg(Color::Red));
        assert_eq!(render_row(&buffer, 0, false), ("ab".to_owned(), 2));
        let (text, used) = render_row(&buffer, 0, true);
        assert!(text.starts_with("\x1b[0;31ma\x1b[0mb"), "{text:?}");
        assert_eq!(used, 2);
    }
}
