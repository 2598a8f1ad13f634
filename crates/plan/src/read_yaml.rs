//! YAML into the tree, event by event, without recursion.
//!
//! Anchors, aliases and merge keys (`<<`) work; what aliases expand to is counted, so that a small
//! file cannot become a large tree. A repeated key is a problem, and reading goes on after it.

use std::collections::{BTreeMap, BTreeSet};

use saphyr_parser::{Event, Parser, ScalarStyle, Span, Tag};

use crate::problem::Finding;
use crate::tree::{DEPTH_MAX, Entry, Lines, NODES_MAX, Node, Place, Value, shorten, whole};

/// The first document, and what was wrong; `None` if there was nothing to read.
pub fn read(text: &str) -> (Option<Node>, Vec<Finding>) {
    let mut reader = Reader {
        lines: Lines::new(text),
        offsets: offsets(text),
        text,
        stack: Vec::new(),
        anchors: BTreeMap::new(),
        nodes: 0,
        root: None,
        findings: Vec::new(),
    };
    reader.run();
    (reader.root, reader.findings)
}

/// Byte offsets of characters; `None` if they are the same (ASCII).
fn offsets(text: &str) -> Option<Vec<usize>> {
    let all = || text.char_indices().map(|(offset, _)| offset).chain([text.len()]).collect();
    (!text.is_ascii()).then(all)
}

struct Reader<'a> {
    lines: Lines<'a>,
    offsets: Option<Vec<usize>>,
    text: &'a str,
    stack: Vec<Frame>,
    anchors: BTreeMap<usize, Node>,
    nodes: usize,
    root: Option<Node>,
    findings: Vec<Finding>,
}

/// A list or map whose end has not been seen.
struct Frame {
    anchor: usize,
    start: Place,
    open: Open,
}

enum Open {
    List(Vec<Node>),
    Map { entries: Vec<Entry>, seen: BTreeMap<String, Place>, key: Option<Node> },
}

/// Reading cannot go on.
struct Stop(Finding);

impl Reader<'_> {
    fn run(&mut self) {
        let mut parser = Parser::new_from_str(self.text);
        while let Some(event) = parser.next_event() {
            let step = match event {
                Ok((event, span)) => {
                    let place = self.place(span);
                    self.event(event, place)
                }
                Err(error) => {
                    let place = self.place(Span::empty(*error.marker()));
                    Err(Stop(self.not_yaml(place, error.info())))
                }
            };
            if let Err(Stop(finding)) = step {
                self.findings.push(finding);
                self.root = None;
                return;
            }
        }
    }

    /// What the parser says, or better: what it has met and does not know about.
    fn not_yaml(&self, place: Place, info: &str) -> Finding {
        // It notices a tab when the line before it should have gone on.
        let tab = (place.line..=place.line + 1).find_map(|line| self.tab_in(line));
        if let Some(tab) = tab {
            return Finding::new(tab, "a tab cannot indent a line of YAML")
                .help("use blanks: two for each level");
        }
        if let Some(finding) =
            self.bad_escape(place, info).or_else(|| self.at_the_dash(place, info))
        {
            return finding;
        }
        let finding = Finding::new(place, format!("not valid YAML: {info}"));
        let lines = [place.line, place.line.saturating_sub(1)];
        let help = lines.into_iter().filter(|line| *line > 0).find_map(|line| {
            let bare = self.bare_reference(line).or_else(|| self.bare_path(line));
            bare.or_else(|| self.bare_sign(line))
        });
        match help {
            Some(help) => finding.help(help),
            None => finding,
        }
    }

    /// `"(\d+)"`: in double quotes a backslash begins one of YAML's own signs.
    fn bad_escape(&self, place: Place, info: &str) -> Option<Finding> {
        if !info.contains("escape") {
            return None;
        }
        let rest = self.text.get(place.start..)?;
        let mut chars = rest.char_indices().skip(1);
        let (at, sign) = loop {
            let (at, c) = chars.next().filter(|(_, c)| *c != '\n')?;
            if c == '\\' {
                let (_, sign) = chars.next()?;
                if !"0abt\tnvfre \"/\\N_LPxuU\n".contains(sign) {
                    break (at, sign);
                }
            }
        };
        let start = place.start + at;
        let place = self.lines.place(start, start + 1 + sign.len_utf8());
        let message = format!("`\\{sign}` means nothing in double quotes");
        Some(Finding::new(place, message).help(format!(
            "put the text in single quotes, in which a backslash is one, or write `\\\\{sign}`"
        )))
    }

    /// A key of a list's item that is indented no further than the item's dash.
    fn at_the_dash(&self, place: Place, info: &str) -> Option<Finding> {
        if !info.contains("expected '-' indicator") {
            return None;
        }
        let key = self.lines.line(place.line).trim().split(':').next()?;
        let message = format!("`{}` stands at the level of the dash above it", shorten(key));
        let help =
            "indent it by two more blanks if it belongs to the item, by less if the list is over";
        Some(Finding::new(place, message).help(help))
    }

    /// `is: >= 1`: there the sign is YAML's, as are `*`, `&`, `%`, `@` and `!` at the beginning.
    fn bare_sign(&self, line: u32) -> Option<String> {
        let text = self.lines.line(line);
        let (_, value) = text.split_once(": ")?;
        let value = value.trim();
        let value = value.split(" #").next().unwrap_or_default().trim_end();
        let first = value.chars().next()?;
        let is_block = matches!(value, "|" | ">" | "|-" | ">-" | "|+" | ">+");
        let signs = ['>', '|', '*', '&', '%', '@', '!', '`'];
        if is_block || !signs.contains(&first) || value.contains('"') {
            return None;
        }
        Some(format!(
            "put quotes around the text: `\"{value}\"`; without them `{first}` begins something of YAML's own"
        ))
    }

    /// `{ id: $[0].id }`: there the brackets are YAML's.
    fn bare_path(&self, line: u32) -> Option<String> {
        let text = self.lines.line(line);
        let at = text.find("$[").or_else(|| text.find("$."))?;
        let quoted = text[..at].matches(['"', '\'']).count() % 2 == 1;
        let inside = text[..at].contains(['{', '[']);
        let end = text[at..].find([',', '}', ' ']).map_or(text.len(), |end| at + end);
        let path = &text[at..end];
        (inside && !quoted && path.contains('[')).then(|| {
            format!(
                "put quotes around the path: `\"{path}\"`; inside `{{ }}` YAML takes its brackets for its own"
            )
        })
    }

    /// Where a tab stands among the blanks at the start of a line.
    fn tab_in(&self, line: u32) -> Option<Place> {
        let start = self.lines.start(line)?;
        let blank = |c: char| c == ' ' || c == '\t';
        let text = self.lines.line(line);
        let indent = &text[..text.find(|c| !blank(c)).unwrap_or(text.len())];
        let at = start + indent.find('\t')?;
        Some(self.lines.place(at, at + 1))
    }

    /// `{ x: ${vu.id} }`: there the braces are YAML's.
    fn bare_reference(&self, line: u32) -> Option<String> {
        let text = self.lines.line(line);
        let at = text.find("${")?;
        let end = text[at..].find('}').map_or(text.len(), |end| at + end + 1);
        let reference = &text[at..end];
        let quoted = text[..at].matches(['"', '\'']).count() % 2 == 1;
        let inside = text[..at].contains(['{', '[']);
        (inside && !quoted).then(|| {
            format!(
                "put quotes around the text with the reference: `\"{reference}\"`; inside `{{ }}` and \
                 `[ ]` YAML takes its braces for its own"
            )
        })
    }

    fn place(&self, span: Span) -> Place {
        let byte = |index: usize| match &self.offsets {
            None => index,
            Some(offsets) => offsets.get(index).copied().unwrap_or(self.text.len()),
        };
        self.lines.place(byte(span.start.index()), byte(span.end.index()))
    }

    fn event(&mut self, event: Event<'_>, place: Place) -> Result<(), Stop> {
        match event {
            Event::DocumentStart(_) if self.root.is_some() => {
                let finding = Finding::new(place, "a second document begins here");
                return Err(Stop(finding.help("a plan is one document: remove the `---`")));
            }
            Event::Scalar(text, style, anchor, tag) => {
                let tag = tag.as_deref();
                let node = Node { value: scalar(&text, style, tag), place };
                self.finish(node, anchor, 1)?;
            }
            Event::Alias(anchor) => {
                let Some(node) = self.anchors.get(&anchor).cloned() else {
                    let finding = Finding::new(place, "this alias refers to itself");
                    return Err(Stop(finding));
                };
                let size = size(&node);
                self.finish(node, 0, size)?;
            }
            Event::SequenceStart(anchor, _) => self.open(anchor, place, Open::List(Vec::new()))?,
            Event::MappingStart(anchor, _) => {
                let map = Open::Map { entries: Vec::new(), seen: BTreeMap::new(), key: None };
                self.open(anchor, place, map)?;
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(place)?,
            _ => {}
        }
        Ok(())
    }

    fn open(&mut self, anchor: usize, start: Place, open: Open) -> Result<(), Stop> {
        if self.stack.len() >= DEPTH_MAX {
            let message = format!("nested more than {DEPTH_MAX} levels deep");
            return Err(Stop(Finding::new(start, message)));
        }
        self.stack.push(Frame { anchor, start, open });
        Ok(())
    }

    fn close(&mut self, end: Place) -> Result<(), Stop> {
        let Some(frame) = self.stack.pop() else {
            return Ok(());
        };
        let value = match frame.open {
            Open::List(items) => Value::List(items),
            Open::Map { entries, .. } => Value::Map(self.merge(entries)),
        };
        let place = Place { end: end.end.max(frame.start.start), ..frame.start };
        self.finish(Node { value, place }, frame.anchor, 1)
    }

    /// Hands a finished value to the list or map that it stands in.
    fn finish(&mut self, node: Node, anchor: usize, nodes: usize) -> Result<(), Stop> {
        self.nodes += nodes;
        if self.nodes > NODES_MAX {
            let message = format!("more than {NODES_MAX} values after expanding aliases");
            return Err(Stop(Finding::new(node.place, message)));
        }
        // An alias inside a deep place may carry a deep tree there.
        if nodes > 1 && self.stack.len() + depth(&node) > DEPTH_MAX {
            let message = format!("nested more than {DEPTH_MAX} levels deep");
            return Err(Stop(Finding::new(node.place, message)));
        }
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        match self.stack.last_mut().map(|frame| &mut frame.open) {
            None => self.root = Some(node),
            Some(Open::List(items)) => items.push(node),
            Some(Open::Map { key: pending @ None, .. }) => *pending = Some(node),
            Some(Open::Map { entries, seen, key }) => {
                if let Some(entry) =
                    key.take().and_then(|key| entry(&key, node, &mut self.findings))
                {
                    match seen.get(&entry.key) {
                        Some(first) if entry.key != "<<" => {
                            self.findings.push(repeated(&entry.key, entry.place, *first));
                        }
                        _ => {
                            seen.insert(entry.key.clone(), entry.place);
                            entries.push(entry);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// `<<: *base` adds the keys of `base` that the map does not have itself.
    fn merge(&mut self, entries: Vec<Entry>) -> Vec<Entry> {
        let (merges, mut own): (Vec<_>, Vec<_>) = entries.into_iter().partition(|e| e.key == "<<");
        let mut known: BTreeSet<String> = own.iter().map(|entry| entry.key.clone()).collect();
        for merge in merges {
            for base in merge.value.one_or_many() {
                if !matches!(base.value, Value::Map(_)) {
                    let message = "`<<` merges a map, or a list of maps";
                    self.findings.push(Finding::new(merge.place, message));
                }
                for entry in base.entries() {
                    if known.insert(entry.key.clone()) {
                        own.push(entry.clone());
                    }
                }
            }
        }
        own
    }
}

fn entry(key: &Node, value: Node, findings: &mut Vec<Finding>) -> Option<Entry> {
    match key.text() {
        Some(name) => Some(Entry { key: name.to_owned(), place: key.place, value }),
        None => {
            let message = format!("a key must be text, not {}", key.describe());
            findings.push(Finding::new(key.place, message));
            None
        }
    }
}

/// The same finding for all formats.
pub fn repeated(name: &str, place: Place, first: Place) -> Finding {
    Finding::new(place, format!("the key `{name}` is given twice"))
        .help(format!("it was first given in line {}", first.line))
}

fn size(node: &Node) -> usize {
    1 + node.items().iter().map(size).sum::<usize>()
        + node.entries().iter().map(|entry| size(&entry.value)).sum::<usize>()
}

fn depth(node: &Node) -> usize {
    let items = node.items().iter().map(depth).max();
    let entries = node.entries().iter().map(|entry| depth(&entry.value)).max();
    1 + items.max(entries).unwrap_or(0)
}

/// YAML 1.2's core schema: only these words are not text.
fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Value {
    let as_text = tag.is_some_and(|tag| tag.is_yaml_core_schema() && tag.suffix == "str");
    if style != ScalarStyle::Plain || as_text {
        return Value::Text(text.to_owned());
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Flag(true),
        "false" | "False" | "FALSE" => Value::Flag(false),
        _ if is_number(text) => Value::Number(text.to_owned()),
        _ => Value::Text(text.to_owned()),
    }
}

fn is_number(text: &str) -> bool {
    let body = text.strip_prefix(['-', '+']).unwrap_or(text);
    let numeric = |c: char| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '-' | '+');
    let decimal = body.starts_with(|first: char| first.is_ascii_digit() || first == '.')
        && body.chars().all(numeric)
        && body.parse::<f64>().is_ok();
    decimal || (body.starts_with("0x") || body.starts_with("0o")) && whole(body).is_some()
}
