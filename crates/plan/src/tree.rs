//! The tree that all three file formats are read into: values that know where they stand.
//!
//! Checks and decoding work on this tree alone, so a plan means the same and its problems look the
//! same whether it was written in YAML, TOML or JSON.
//!
//! Limits (a plan comes from outside): files up to [`FILE_BYTES_MAX`], [`DEPTH_MAX`] levels,
//! [`NODES_MAX`] values after aliases are expanded. The depth bounds every recursion of this crate.

use std::cell::Cell;

pub const FILE_BYTES_MAX: usize = 16 << 20;
pub const DEPTH_MAX: usize = 64;
pub const NODES_MAX: usize = 500_000;

/// Where something stands in its file. Line and column count from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord)]
pub struct Place {
    pub line: u32,
    pub column: u32,
    /// Byte range in the text.
    pub start: usize,
    pub end: usize,
}

#[derive(Debug, Clone)]
pub struct Node {
    pub value: Value,
    pub place: Place,
}

#[derive(Debug, Clone)]
pub enum Value {
    Null,
    Flag(bool),
    /// As written, so that `1.10` and `007` survive where text is wanted.
    Number(String),
    Text(String),
    List(Vec<Node>),
    /// In the order of the file; keys are unique (a repeated key is reported by the reader).
    Map(Vec<Entry>),
}

#[derive(Debug, Clone)]
pub struct Entry {
    pub key: String,
    pub place: Place,
    pub value: Node,
}

impl Node {
    pub fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The items of a list; of anything else, none.
    pub fn items(&self) -> &[Node] {
        match &self.value {
            Value::List(items) => items,
            _ => &[],
        }
    }

    /// The items of a list, or the single value that stands for a list of one.
    pub fn one_or_many(&self) -> &[Node] {
        match &self.value {
            Value::List(items) => items,
            Value::Null => &[],
            _ => std::slice::from_ref(self),
        }
    }

    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().find(|entry| entry.key == key)
    }

    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|entry| &entry.value)
    }

    /// The text of a scalar, whatever its type; `None` for lists, maps and null.
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) | Value::Number(text) => Some(text),
            Value::Flag(true) => Some("true"),
            Value::Flag(false) => Some("false"),
            Value::Null | Value::List(_) | Value::Map(_) => None,
        }
    }

    pub fn flag(&self) -> Option<bool> {
        match self.value {
            Value::Flag(flag) => Some(flag),
            _ => None,
        }
    }

    /// A whole number that is not negative.
    pub fn count(&self) -> Option<u64> {
        match &self.value {
            Value::Number(text) => whole(text).and_then(|number| u64::try_from(number).ok()),
            _ => None,
        }
    }

    /// What it is, for messages: `a list`, `the text "abc"`.
    pub fn describe(&self) -> String {
        match &self.value {
            Value::Null => "nothing".into(),
            Value::Flag(flag) => format!("`{flag}`"),
            Value::Number(text) => format!("the number `{}`", shorten(text)),
            Value::Text(text) => format!("the text `{}`", shorten(text)),
            Value::List(_) => "a list".into(),
            Value::Map(_) => "a map".into(),
        }
    }

    /// The path of the key or value at this place: `workflows[0].steps[1].get`.
    pub fn path_of(&self, place: Place) -> Option<String> {
        let inside = |other: Place| other.start <= place.start && place.end <= other.end;
        self.find_path(&|other| other == place).or_else(|| self.find_path(&inside))
    }

    /// Maps and lists match only by their exact place: what is inside them is named first.
    fn find_path(&self, matches: &dyn Fn(Place) -> bool) -> Option<String> {
        match &self.value {
            Value::List(items) => {
                let found = items.iter().enumerate().find_map(|(index, item)| {
                    item.find_path(matches).map(|rest| join(&format!("[{index}]"), &rest))
                });
                found.or_else(|| matches(self.place).then(String::new))
            }
            Value::Map(entries) => {
                let found = entries.iter().find_map(|entry| {
                    if matches(entry.place) {
                        return Some(entry.key.clone());
                    }
                    entry.value.find_path(matches).map(|rest| join(&entry.key, &rest))
                });
                found.or_else(|| matches(self.place).then(String::new))
            }
            _ => matches(self.place).then(String::new),
        }
    }
}

fn join(head: &str, rest: &str) -> String {
    match rest.chars().next() {
        None | Some('[') => format!("{head}{rest}"),
        Some(_) => format!("{head}.{rest}"),
    }
}

/// At most 40 characters, for quoting input in a message.
pub fn shorten(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(40) {
        Some((cut, _)) => format!("{}…", &line[..cut]),
        None if line.len() < text.len() => format!("{line}…"),
        None => line.to_owned(),
    }
}

/// A whole number as YAML's core schema, TOML and JSON write it.
pub fn whole(text: &str) -> Option<i128> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let based = |digits: &str, base: u32| {
        // `from_str_radix` would accept a second sign.
        if digits.starts_with(['+', '-']) { None } else { i128::from_str_radix(digits, base).ok() }
    };
    let number = match digits.get(..2) {
        Some("0x") => based(&digits[2..], 16),
        Some("0o") => based(&digits[2..], 8),
        Some("0b") => based(&digits[2..], 2),
        _ => based(digits, 10),
    }?;
    Some(if negative { -number } else { number })
}

/// Whether JSON would write a number exactly so.
pub fn is_json_number(text: &str) -> bool {
    text.starts_with(|first: char| first == '-' || first.is_ascii_digit())
        && serde_json::from_str::<serde_json::Number>(text).is_ok()
}

/// Turns byte offsets into lines and columns.
pub struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
    /// The last line, offset and column asked for: a long line is not counted from its start for
    /// each of its values.
    last: Cell<(usize, usize, usize)>,
}

impl<'a> Lines<'a> {
    pub fn new(text: &'a str) -> Self {
        let mut starts = vec![0];
        starts.extend(text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i + 1));
        Lines { text, starts, last: Cell::new((0, 0, 1)) }
    }

    pub fn place(&self, start: usize, end: usize) -> Place {
        let start = self.boundary(start);
        let line = self.starts.partition_point(|begin| *begin <= start).max(1) - 1;
        let (from, counted) = match self.last.get() {
            (last_line, at, column) if last_line == line && at <= start => (at, column),
            _ => (self.starts[line], 1),
        };
        let column = counted + self.text[from..start].chars().count();
        self.last.set((line, start, column));
        Place {
            line: u32::try_from(line + 1).unwrap_or(u32::MAX),
            column: u32::try_from(column).unwrap_or(u32::MAX),
            start,
            end: self.boundary(end).max(start),
        }
    }

    /// The text of a line (counted from 1), without its end.
    pub fn line(&self, number: u32) -> &'a str {
        let Some(index) = (number as usize).checked_sub(1) else {
            return "";
        };
        let Some(start) = self.starts.get(index) else {
            return "";
        };
        self.text[*start..].lines().next().unwrap_or_default()
    }

    /// Where a line (counted from 1) begins.
    pub fn start(&self, number: u32) -> Option<usize> {
        self.starts.get((number as usize).checked_sub(1)?).copied()
    }

    fn boundary(&self, offset: usize) -> usize {
        let mut offset = offset.min(self.text.len());
        while !self.text.is_char_boundary(offset) {
            offset -= 1;
        }
        offset
    }
}
