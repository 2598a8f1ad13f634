//! JSON into the tree.
//!
//! The structure is read here, because `serde_json` tells no positions; strings and numbers are
//! handed to `serde_json`, which knows escapes and surrogate pairs. (A YAML reader accepts most of
//! JSON, but neither tabs before keys nor surrogate pairs.)

use std::collections::BTreeMap;

use crate::problem::Finding;
use crate::quotes::QUOTES;
use crate::read_yaml::repeated;
use crate::tree::{DEPTH_MAX, Entry, Lines, NODES_MAX, Node, Place, Value, is_json_number};

pub fn read(text: &str) -> (Option<Node>, Vec<Finding>) {
    let lines = Lines::new(text);
    let mut reader = Reader { text, at: 0, lines, nodes: 0, findings: Vec::new() };
    match reader.document() {
        Ok(node) => (Some(node), reader.findings),
        Err(finding) => {
            reader.findings.push(finding);
            (None, reader.findings)
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    lines: Lines<'a>,
    nodes: usize,
    findings: Vec<Finding>,
}

impl Reader<'_> {
    fn document(&mut self) -> Result<Node, Finding> {
        let node = self.value(0)?;
        self.blanks();
        if self.at < self.text.len() {
            return Err(self.wrong("the end of the file"));
        }
        Ok(node)
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blanks(&mut self) {
        loop {
            while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
                self.at += 1;
            }
            if !self.comment() {
                return;
            }
        }
    }

    /// Reports a comment and passes over it, so that the rest of the file is looked at, too.
    fn comment(&mut self) -> bool {
        let rest = &self.text[self.at..];
        let length = if rest.starts_with("//") || rest.starts_with('#') {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else {
            return false;
        };
        let place = self.lines.place(self.at, self.at + length);
        let help = "remove it, or give the file the ending .yaml: YAML takes JSON, and its comments \
                    begin with `#`";
        self.findings.push(Finding::new(place, "JSON has no comments").help(help));
        self.at += length;
        true
    }

    /// Takes the comma between two values; one before the closing bracket is reported.
    fn comma(&mut self, close: u8) -> bool {
        let found = self.take(b',');
        let comma = self.at.saturating_sub(1);
        self.blanks();
        if found && self.peek() == Some(close) {
            let place = self.lines.place(comma, comma + 1);
            let message = format!("this comma before `{}` is one too many", char::from(close));
            self.findings.push(Finding::new(place, message).help("JSON has none there: remove it"));
        }
        found
    }

    /// Takes this byte, if it is next.
    fn take(&mut self, byte: u8) -> bool {
        self.blanks();
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn wrong(&self, expected: &str) -> Finding {
        let found = match self.text[self.at..].chars().next() {
            Some(found) => format!("`{found}`"),
            None => "the end of the file".into(),
        };
        let place = self.lines.place(self.at, self.at + 1);
        let help = match self.text[self.at..].chars().next() {
            Some('\'') => Some("JSON's quotes are \""),
            Some(c) if QUOTES.contains(&c) => Some("these quotes are typographic; JSON's are \""),
            Some(c) if expected.contains("key") && (c.is_alphabetic() || c == '_') => {
                Some("in JSON the names of keys stand in double quotes, too")
            }
            Some('"' | '{' | '[') if expected.starts_with("`,`") => {
                Some("a comma is missing before it")
            }
            Some(c) if expected == "a value" && c.is_alphabetic() => {
                Some("in JSON a text stands in double quotes")
            }
            None => Some("a closing bracket is missing"),
            _ => None,
        };
        Finding::new(place, format!("not valid JSON: expected {expected}, found {found}"))
            .maybe_help(help.map(str::to_owned))
    }

    fn value(&mut self, depth: usize) -> Result<Node, Finding> {
        self.blanks();
        self.nodes += 1;
        if depth > DEPTH_MAX || self.nodes > NODES_MAX {
            let place = self.lines.place(self.at, self.at + 1);
            let limit = format!("{DEPTH_MAX} levels or {NODES_MAX} values");
            return Err(Finding::new(place, format!("larger than {limit}")));
        }
        let start = self.at;
        let value = match self.peek() {
            Some(b'{') => self.map(depth)?,
            Some(b'[') => self.list(depth)?,
            Some(b'"') => Value::Text(self.string()?.0),
            _ => self.word()?,
        };
        Ok(Node { value, place: self.lines.place(start, self.at) })
    }

    fn list(&mut self, depth: usize) -> Result<Value, Finding> {
        self.at += 1;
        let mut items = Vec::new();
        if self.take(b']') {
            return Ok(Value::List(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            if self.take(b']') {
                return Ok(Value::List(items));
            }
            if !self.comma(b']') {
                return Err(self.wrong("`,` or `]`"));
            }
            if self.take(b']') {
                return Ok(Value::List(items));
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Value, Finding> {
        self.at += 1;
        let mut entries: Vec<Entry> = Vec::new();
        let mut seen: BTreeMap<String, Place> = BTreeMap::new();
        if self.take(b'}') {
            return Ok(Value::Map(entries));
        }
        loop {
            self.blanks();
            if self.peek() != Some(b'"') {
                return Err(self.wrong("a key in double quotes"));
            }
            let (key, place) = self.string()?;
            if !self.take(b':') {
                return Err(self.wrong("`:`"));
            }
            let value = self.value(depth + 1)?;
            match seen.get(&key) {
                Some(first) => self.findings.push(repeated(&key, place, *first)),
                None => {
                    seen.insert(key.clone(), place);
                    entries.push(Entry { key, place, value });
                }
            }
            if self.take(b'}') {
                return Ok(Value::Map(entries));
            }
            if !self.comma(b'}') {
                return Err(self.wrong("`,` or `}`"));
            }
            if self.take(b'}') {
                return Ok(Value::Map(entries));
            }
        }
    }

    fn string(&mut self) -> Result<(String, Place), Finding> {
        let start = self.at;
        let mut escaped = false;
        for (offset, byte) in self.text.bytes().enumerate().skip(start + 1) {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => {
                    self.at = offset + 1;
                    let place = self.lines.place(start, self.at);
                    return serde_json::from_str(&self.text[start..self.at])
                        .map(|text| (text, place))
                        .map_err(|error| Finding::new(place, format!("not valid JSON: {error}")));
                }
                _ => {}
            }
        }
        let place = self.lines.place(start, start + 1);
        Err(Finding::new(place, "not valid JSON: this string has no end"))
    }

    fn word(&mut self) -> Result<Value, Finding> {
        let rest = &self.text[self.at..];
        let inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.');
        let word = &rest[..rest.find(|c| !inside(c)).unwrap_or(rest.len())];
        let value = match word {
            "null" => Value::Null,
            "true" => Value::Flag(true),
            "false" => Value::Flag(false),
            _ if is_json_number(word) => Value::Number(word.to_owned()),
            _ => return Err(self.wrong("a value")),
        };
        self.at += word.len();
        Ok(value)
    }
}
