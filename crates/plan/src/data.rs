//! Data sets: CSV with a header line, or JSON lines whose fields are the columns.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use crate::model::{DataFormat, DataSet};
use crate::text_file;

/// All rows stay in memory, shared by all virtual users.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// The rows of a data set: cells one after another, row by row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows {
    pub columns: Vec<String>,
    pub cells: Vec<Box<str>>,
}

impl Rows {
    /// How many rows.
    pub fn len(&self) -> usize {
        self.cells.len().checked_div(self.columns.len()).unwrap_or(0)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn row(&self, index: usize) -> &[Box<str>] {
        let width = self.columns.len();
        &self.cells[index * width..(index + 1) * width]
    }
}

/// Why a data file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataError {
    pub file: PathBuf,
    /// Counted from 1; 0 if it is about the whole file.
    pub line: u64,
    pub message: String,
    pub help: Option<String>,
}

impl std::error::Error for DataError {}

impl fmt::Display for DataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        write!(f, ": {}", self.message)
    }
}

/// Reads a data file; at least one row, each with a cell for every column.
pub fn load_rows(set: &DataSet) -> Result<Rows, DataError> {
    let wrong = |line: u64, message: String, help: Option<String>| DataError {
        file: set.file.clone(),
        line,
        message,
        help,
    };
    let fail = |line: u64, message: String| wrong(line, message, None);
    let size = std::fs::metadata(&set.file).map_err(|error| fail(0, error.to_string()))?.len();
    if size > FILE_BYTES_MAX {
        return Err(fail(0, "larger than 1 GiB; split it".into()));
    }
    let text = std::fs::read(&set.file).map_err(|error| fail(0, error.to_string()))?;
    let text = text_file::read(text).map_err(|(message, help)| wrong(0, message, Some(help)))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let rows = match set.format {
        DataFormat::Csv => csv_rows(text, set.delimiter),
        DataFormat::JsonLines => json_rows(text),
    };
    let rows = rows.map_err(|(line, message, help)| wrong(line, message, help))?;
    if rows.is_empty() {
        let help = match set.format {
            DataFormat::Csv => "the first line is the header; add a line for each row below it",
            DataFormat::JsonLines => "add a JSON object in a line of its own for each row",
        };
        return Err(wrong(0, "the data file has no rows".into(), Some(help.into())));
    }
    Ok(rows)
}

/// The line, what is wrong in it, and what to do.
type Failure = (u64, String, Option<String>);

fn csv_rows(text: &str, delimiter: u8) -> Result<Rows, Failure> {
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(delimiter)
        .trim(csv::Trim::Headers)
        .flexible(true)
        .from_reader(text.as_bytes());
    let failure = |error: &csv::Error| {
        (error.position().map_or(0, csv::Position::line), format!("not valid CSV: {error}"), None)
    };
    let headers = reader.headers().map_err(|error| failure(&error))?;
    let columns: Vec<String> = headers.iter().map(str::to_owned).collect();
    for (index, column) in columns.iter().enumerate() {
        if column.is_empty() {
            let help = "name it in the first line, or remove the delimiter too many";
            return Err((1, format!("column {} has no name", index + 1), Some(help.into())));
        }
        if columns[..index].contains(column) {
            let help = "the first line names the columns; if it is a row, put the names above it";
            let message = format!("two columns are called `{column}`");
            return Err((1, message, Some(help.into())));
        }
    }
    let mut cells = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| failure(&error))?;
        if record.len() != columns.len() {
            let line = record.position().map_or(0, csv::Position::line);
            let (found, wanted) = (record.len(), columns.len());
            // Values may be secrets; the first is enough to find the line by.
            let first = crate::tree::shorten(record.get(0).unwrap_or_default());
            let between = char::from(delimiter);
            let fields = if found == 1 { "field" } else { "fields" };
            if wanted == 1 && columns[0].contains([';', '\t', '|']) {
                let doubt = "is it another `delimiter`?";
                let message = format!("{found} {fields}, and the header has {wanted}; {doubt}");
                let help = "add it to the data set, for example `delimiter: \";\"`";
                return Err((line, message, Some(help.into())));
            }
            // A quote without its end takes the lines after it into one value.
            let takes_lines = record.iter().any(|field| field.contains('\n'));
            if takes_lines && text.matches('"').count() % 2 == 1 {
                let help = "close it, or double it where a quote itself is meant: `\"\"`";
                let message = "a quote that begins here is not closed".to_owned();
                return Err((line, message, Some(help.into())));
            }
            let message = format!(
                "{found} {fields}, and the header has {wanted} (the line begins `{first}{between}`)"
            );
            return Err((line, message, Some(ragged(found, &columns, between))));
        }
        cells.extend(record.iter().map(Box::from));
    }
    Ok(Rows { columns, cells })
}

/// What to do about a line with another number of fields than the header.
fn ragged(found: usize, columns: &[String], delimiter: char) -> String {
    let wanted = columns.len();
    if found > wanted {
        return format!(
            "put a value that contains `{delimiter}` in quotes: `\"p{delimiter}w\"` (and double a quote \
             inside it)"
        );
    }
    format!("give every line a value for each of {}; an empty one is allowed", columns.join(", "))
}

/// The first line names the columns; every line must have them.
fn json_rows(text: &str) -> Result<Rows, Failure> {
    let mut columns: Vec<String> = Vec::new();
    let mut cells = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let number = index as u64 + 1;
        let fields: BTreeMap<String, serde_json::Value> =
            serde_json::from_str(line).map_err(|error| {
                let help = "each line is an object of its own: `{\"name\": \"amara\"}`; \
                            `jq -c .[]` makes lines of a list";
                (number, format!("not a JSON object in one line: {error}"), Some(help.into()))
            })?;
        if columns.is_empty() {
            let first: serde_json::Map<String, serde_json::Value> =
                serde_json::from_str(line).map_err(|error| (number, error.to_string(), None))?;
            columns = first.keys().cloned().collect();
            if columns.is_empty() {
                return Err((number, "no fields".into(), None));
            }
        }
        for column in &columns {
            let value = fields.get(column);
            let value = value.ok_or_else(|| {
                let help = "every line has the fields of the first; `null` is a value";
                (number, format!("the field `{column}` is missing"), Some(help.into()))
            })?;
            cells.push(match value {
                serde_json::Value::String(text) => text.as_str().into(),
                other => other.to_string().into_boxed_str(),
            });
        }
    }
    Ok(Rows { columns, cells })
}
