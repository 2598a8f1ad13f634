//! Aligned columns and colours.

use super::Look;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Bold,
    Dim,
    Green,
    Yellow,
    Red,
}

pub(super) fn paint(color: bool, tone: Tone, text: &str) -> String {
    let code = match tone {
        _ if !color || text.is_empty() => return text.to_owned(),
        Tone::Plain => return text.to_owned(),
        Tone::Bold => "1",
        Tone::Dim => "2",
        Tone::Green => "32",
        Tone::Yellow => "33",
        Tone::Red => "31",
    };
    format!("\x1b[{code}m{text}\x1b[0m")
}

/// Characters that a terminal shows, colour codes not counted.
pub(super) fn visible_width(text: &str) -> usize {
    let mut width = 0;
    let mut in_code = false;
    for c in text.chars() {
        match c {
            '\x1b' => in_code = true,
            'm' if in_code => in_code = false,
            _ => width += usize::from(!in_code),
        }
    }
    width
}

/// One right-aligned value.
pub(super) struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    pub(super) fn new(text: impl Into<String>) -> Cell {
        Cell { text: text.into(), tone: Tone::Plain }
    }

    pub(super) fn toned(text: impl Into<String>, tone: Tone) -> Cell {
        Cell { text: text.into(), tone }
    }

    /// A number that is good news only when it is zero.
    pub(super) fn bad_count(n: u64) -> Cell {
        Cell::bad_count_within(n, 9)
    }

    pub(super) fn bad_count_within(n: u64, width: usize) -> Cell {
        let tone = if n > 0 { Tone::Red } else { Tone::Plain };
        Cell::toned(crate::format::count_within(n, width), tone)
    }
}

pub(super) struct Row {
    label: String,
    cells: Vec<Cell>,
    tone: Tone,
}

impl Row {
    pub(super) fn new(label: &str, cells: Vec<Cell>) -> Row {
        Row { label: crate::format::clean(label), cells, tone: Tone::Plain }
    }

    pub(super) fn dim(mut self) -> Row {
        self.tone = Tone::Dim;
        self
    }

    pub(super) fn bold(mut self) -> Row {
        self.tone = Tone::Bold;
        self
    }
}

/// A label on the left, numbers right-aligned beside it.
pub(super) struct Table {
    head: Vec<String>,
    rows: Vec<Row>,
}

const INDENT: usize = 2;
/// Columns that a narrow terminal does without, the first of them first; others go from the right.
const DISPENSABLE: [&str; 9] =
    ["p99.9", "min", "p90", "mean", "cores", "from", "rate/s", "p50", "max"];

impl Table {
    pub(super) fn new<const N: usize>(head: [&str; N]) -> Table {
        Table { head: head.map(str::to_owned).to_vec(), rows: Vec::new() }
    }

    pub(super) fn push(&mut self, row: Row) {
        debug_assert_eq!(row.cells.len() + 1, self.head.len());
        self.rows.push(row);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(super) fn render(&self, look: Look) -> String {
        let mut widths: Vec<usize> =
            (1..self.head.len()).map(|column| self.width_of(column)).collect();
        let left_out = self.left_out(&widths, look.width);
        let mut column = 0;
        widths.retain(|_| {
            column += 1;
            !left_out[column - 1]
        });
        let longest = self.rows.iter().map(|row| row.label.chars().count());
        let longest = longest.max().unwrap_or(0).max(self.head[0].chars().count());
        // Two spaces between columns if there is room, one if not.
        let numbers: usize = widths.iter().sum();
        let roomy = INDENT + longest + numbers + 2 * widths.len() <= look.width;
        let gap = if roomy { 2 } else { 1 };
        let room = look.width.saturating_sub(INDENT + numbers + gap * widths.len());
        let label_width = longest.min(room);
        let mut out = String::new();
        let head: Vec<Cell> = self.head[1..].iter().map(|text| Cell::new(&**text)).collect();
        // A heading above nothing but numbers would only take a line.
        let head_fits = self.head[0].chars().count() <= label_width;
        let head = Row {
            label: if head_fits { self.head[0].clone() } else { String::new() },
            cells: head,
            tone: Tone::Dim,
        };
        for row in std::iter::once(&head).chain(&self.rows) {
            render_row(&mut out, row, &left_out, (label_width, &widths, gap), look);
        }
        out
    }

    /// Which columns a narrow terminal does without, `true` for each of them: a number that is cut
    /// in the middle is wrong, one that is missing is in the file of `--summary`.
    fn left_out(&self, widths: &[usize], room: usize) -> Vec<bool> {
        let mut out = vec![false; widths.len()];
        let needed = |out: &[bool]| {
            let kept = widths.iter().zip(out).filter(|(_, out)| !**out);
            INDENT + kept.map(|(width, _)| width + 1).sum::<usize>()
        };
        while needed(&out) > room {
            let first = DISPENSABLE.iter().find_map(|name| {
                (0..out.len()).find(|column| !out[*column] && self.head[column + 1] == *name)
            });
            match first.or_else(|| out.iter().rposition(|out| !out)) {
                Some(column) => out[column] = true,
                None => break,
            }
        }
        out
    }

    fn width_of(&self, column: usize) -> usize {
        let cells = self.rows.iter().map(|row| row.cells[column - 1].text.chars().count());
        cells.max().unwrap_or(0).max(self.head[column].chars().count())
    }
}

/// A label that does not fit stands on a line of its own: names are never cut. It may reach over
/// cells that are empty.
fn render_row(
    out: &mut String,
    row: &Row,
    left_out: &[bool],
    (label_width, widths, gap): (usize, &[usize], usize),
    look: Look,
) {
    let cells: Vec<&Cell> =
        row.cells.iter().zip(left_out).filter(|(_, out)| !**out).map(|(cell, _)| cell).collect();
    let empty = cells.iter().take_while(|cell| cell.text.is_empty()).count();
    let room = label_width + widths[..empty].iter().map(|width| width + gap).sum::<usize>();
    let mut label = &*row.label;
    if label.chars().count() > room {
        *out += &" ".repeat(INDENT);
        *out += &paint(look.color, row.tone, &crate::format::fit(label, look.width - INDENT));
        out.push('\n');
        label = "";
    }
    let mut line = " ".repeat(INDENT);
    line += &paint(look.color, row.tone, &format!("{label:<room$}"));
    for (cell, width) in cells.iter().zip(widths).skip(empty) {
        let tone = if cell.tone == Tone::Plain { row.tone } else { cell.tone };
        let text = format!("{:>1$}", cell.text, width + gap);
        line += &paint(look.color, tone, &text);
    }
    *out += line.trim_end();
    out.push('\n');
}
