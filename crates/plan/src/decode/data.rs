//! Data sets, read here once to know their columns and to find what is wrong with them.

use std::path::Path;

use super::Context;
use crate::data::{Rows, load_rows};
use crate::model::{DataFormat, DataOrder, DataSet, WhenExhausted};
use crate::template::is_name;
use crate::tree::{Node, shorten};

pub fn data_set(cx: &Context<'_>, name: &str, node: &Node) -> DataSet {
    if !is_name(name) {
        let message = format!("`{}` is not a name for a data set", shorten(name));
        cx.report(node.place, message).help("use letters, digits, `_` and `-`");
    }
    let file_node = node.get("file").unwrap_or(node);
    let text = |key: &str| node.get(key).and_then(Node::text).map(str::to_ascii_lowercase);
    let order = match text("order").as_deref() {
        Some("random") => DataOrder::Random,
        Some("unique-per-vu") => DataOrder::UniquePerVu,
        Some("unique-per-iteration") => DataOrder::UniquePerIteration,
        _ => DataOrder::Sequential,
    };
    let unique = matches!(order, DataOrder::UniquePerVu | DataOrder::UniquePerIteration);
    let when_exhausted = match text("when_exhausted").as_deref() {
        Some("stop") => WhenExhausted::Stop,
        None if unique => WhenExhausted::Stop,
        _ => WhenExhausted::Recycle,
    };
    if order == DataOrder::UniquePerIteration && when_exhausted == WhenExhausted::Recycle {
        let place = node.get("when_exhausted").unwrap_or(node).place;
        cx.report(place, "rows cannot be unique per iteration and recycled")
            .help("write `when_exhausted: stop`, or `order: sequential`");
    }
    if order == DataOrder::Random
        && let Some(given) = node.get("when_exhausted").filter(|given| given.text().is_some())
    {
        let message =
            "`when_exhausted` has no effect here: `order: random` draws rows again and again";
        cx.report(given.place, message).help(
            "remove it; each row once, and then the end, is `order: unique-per-iteration` (in the order of \
             the file: `shuf` mixes its lines)",
        );
    }
    let file = cx.file(file_node);
    let format = format(cx, node, file_node, &file);
    let mut set = DataSet {
        name: name.to_owned(),
        file,
        format,
        delimiter: delimiter(cx, node, format),
        order,
        when_exhausted,
        columns: Vec::new(),
        rows: 0,
        used_by: Vec::new(),
    };
    if set.file.is_file() {
        match load_rows(&set) {
            Ok(rows) => {
                if set.format == DataFormat::Csv {
                    blanks(cx, file_node, &rows, char::from(set.delimiter));
                }
                set.rows = rows.len() as u64;
                set.columns = rows.columns;
            }
            Err(error) => {
                cx.report(file_node.place, error.to_string()).maybe_help(error.help);
            }
        }
        if let [only] = set.columns.as_slice()
            && let Some(meant) = one_column(cx, file_node, only, set.delimiter)
        {
            set.columns = meant;
        }
    }
    set
}

/// `name, password`: blanks beside the delimiter are a part of the values, and not of the names.
fn blanks(cx: &Context<'_>, node: &Node, rows: &Rows, delimiter: char) {
    const BLANK: [char; 2] = [' ', '\t'];
    let columns = |has: fn(&str) -> bool| -> Vec<String> {
        let all = |column: &usize| {
            let mut values = (0..rows.len()).map(|row| &*rows.row(row)[*column]);
            values.all(|value| has(value) && !value.trim().is_empty())
        };
        let found = (0..rows.columns.len()).filter(all);
        found.map(|column| format!("`{}`", shorten(&rows.columns[column]))).collect()
    };
    let file = shorten(node.text().unwrap_or_default());
    let begins: fn(&str) -> bool = |value| value.starts_with(BLANK);
    let ends: fn(&str) -> bool = |value| value.ends_with(BLANK);
    for (how, side, has) in [("begins", "after", begins), ("ends", "before", ends)] {
        let names = columns(has);
        if !names.is_empty() {
            let names = names.join(", ");
            let message = format!(
                "{file}:2: every value of {names} {how} with a blank, which is sent as it is"
            );
            let mut help = format!("take the blanks {side} each `{delimiter}` away");
            let quoted = |value: &str| begins(value) && value.trim().starts_with('"');
            if side == "after" && rows.row(0).iter().any(|value| quoted(value)) {
                help.push_str("; quotes behind a blank are sent, too");
            }
            cx.warn(node.place, message).help(help);
        }
    }
}

/// As given, or by the file's ending.
fn delimiter(cx: &Context<'_>, node: &Node, format: DataFormat) -> u8 {
    let ending = node.get("file").unwrap_or(node).text().unwrap_or_default();
    let usual = if ending.ends_with(".tsv") { b'\t' } else { b',' };
    let Some(given) = node.get("delimiter").filter(|given| given.text().is_some()) else {
        return usual;
    };
    if format == DataFormat::JsonLines {
        cx.report(given.place, "`delimiter` belongs to CSV").help("remove it");
    }
    match given.text().unwrap_or_default() {
        "tab" | "\\t" => b'\t',
        text if text.len() == 1 && !matches!(text, "\"" | "\n" | "\r") => text.as_bytes()[0],
        other => {
            cx.report(given.place, format!("`{}` cannot stand between fields", shorten(other)))
                .help("write one character, for example `delimiter: \";\"`, or `tab`");
            usual
        }
    }
}

/// A header line that is one column with another delimiter in it is read with the wrong one.
///
/// Returns the columns that were probably meant: references to them need no word of their own.
fn one_column(cx: &Context<'_>, node: &Node, column: &str, delimiter: u8) -> Option<Vec<String>> {
    let others = [';', '\t', '|', ','].into_iter();
    let other = others.filter(|c| *c as u8 != delimiter).find(|c| column.contains(*c))?;
    let name = if other == '\t' { "tab".to_owned() } else { other.to_string() };
    cx.report(node.place, format!("the file has one column, called `{}`", shorten(column)))
        .help(format!("its fields seem to be divided otherwise: add `delimiter: \"{name}\"`"));
    Some(column.split(other).map(|name| name.trim().to_owned()).collect())
}

/// As given, or by the file's ending.
fn format(cx: &Context<'_>, node: &Node, file_node: &Node, file: &Path) -> DataFormat {
    let given = node.get("format").and_then(Node::text).map(str::to_ascii_lowercase);
    let ending = file.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    match (given.as_deref(), ending.to_ascii_lowercase().as_str()) {
        (Some("csv"), _) | (None, "csv" | "tsv" | "txt" | "") => DataFormat::Csv,
        (Some(_), _) | (None, "jsonl" | "ndjson" | "json") => DataFormat::JsonLines,
        (None, other) => {
            cx.report(file_node.place, format!("what does a `.{other}` file contain?"))
                .help("add `format: csv` or `format: jsonl`");
            DataFormat::Csv
        }
    }
}
