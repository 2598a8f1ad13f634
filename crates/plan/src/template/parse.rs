//! Reads `${SOURCE:-DEFAULT | filter}`.

use super::foreign::plain;
use super::{
    Escape, Filter, Part, Reference, Source, StepField, Template, TemplateError, TimestampForm,
};
use crate::tree::shorten;
use crate::words;
use base::names::did_you_mean;

/// Words that start a reference and so cannot name a variable.
const RESERVED: [&str; 9] =
    ["env", "data", "use", "steps", "random", "uuid", "timestamp", "vu", "iteration"];

const RANDOM: [&str; 4] = ["uuid", "word", "int", "string"];

const FILTERS: [(&str, Filter); 6] = [
    ("raw", Filter::Raw),
    ("url", Filter::Url),
    ("json", Filter::Json),
    ("base64", Filter::Base64),
    ("upper", Filter::Upper),
    ("lower", Filter::Lower),
];

/// Whether something may be called so: a variable, a data set, a column, a key.
pub fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|first| first.is_alphabetic() || first == '_')
        && chars.all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'))
        && !RESERVED.contains(&text)
}

/// Whether `${text}` would refer to something other than a variable: `data.users.name`, `vu.id`.
pub fn is_source(text: &str) -> bool {
    text.contains('.') && source(text).is_ok_and(|known| !matches!(known, Source::Variable(_)))
}

struct Bad {
    message: String,
    help: Option<String>,
}

impl Bad {
    fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Bad { message: message.into(), help: Some(help.into()) }
    }
}

pub fn template(text: &str, escape: Escape) -> Result<Template, TemplateError> {
    let mut template = Template::default();
    let mut at = 0;
    // A URL may begin with a reference, which then is a URL itself. After the plan's own text a
    // reference is a part of the path, and after its own `?` a part of the query.
    let mut escape = escape;
    while let Some(found) = text[at..].find("${") {
        let start = at + found;
        let before = &text[at..start];
        if matches!(escape, Escape::Url | Escape::UrlPath) && before.contains('?') {
            escape = Escape::UrlQuery;
        } else if escape == Escape::Url && !before.is_empty() {
            escape = Escape::UrlPath;
        }
        if let Some(before) = before.strip_suffix('$') {
            template.push_text(&plain(before, at)?);
            template.push_text("${");
            at = start + 2;
            continue;
        }
        template.push_text(&plain(before, at)?);
        let end = close(text, start).ok_or_else(|| TemplateError {
            start,
            end: text.len(),
            message: "this reference has no end".into(),
            help: Some("close it with `}`, or write `$${` for a literal `${`".into()),
        })?;
        let reference = reference(&text[start + 2..end], escape).map_err(|bad| TemplateError {
            start,
            end: end + 1,
            message: bad.message,
            help: bad.help,
        })?;
        template.push(Part::Reference(reference));
        at = end + 1;
    }
    template.push_text(&plain(&text[at..], at)?);
    Ok(template)
}

/// Where the references of a text stand (bytes), in order; what has no end is left out.
pub fn spans(text: &str) -> Vec<(usize, usize)> {
    let mut spans = Vec::new();
    let mut at = 0;
    while let Some(found) = text[at..].find("${") {
        let start = at + found;
        if text[at..start].ends_with('$') {
            at = start + 2;
            continue;
        }
        let Some(end) = close(text, start) else { break };
        spans.push((start, end + 1));
        at = end + 1;
    }
    spans
}

/// Where the reference that starts at `start` ends; braces inside a default are counted.
fn close(text: &str, start: usize) -> Option<usize> {
    let mut open = 0;
    for (offset, byte) in text.bytes().enumerate().skip(start) {
        match byte {
            b'{' => open += 1,
            b'}' if open == 1 => return Some(offset),
            b'}' => open -= 1,
            _ => {}
        }
    }
    None
}

fn reference(inner: &str, escape: Escape) -> Result<Reference, Bad> {
    let (rest, filter) = match inner.rsplit_once('|') {
        Some((rest, name)) => (rest, Some(filter(name.trim())?)),
        None => (inner, None),
    };
    let (name, default) = match rest.split_once(":-") {
        // A blank before the filter belongs to the filter.
        Some((name, default)) if filter.is_some() => (name, Some(default.trim_end())),
        Some((name, default)) => (name, Some(default)),
        None => (rest, None),
    };
    let source = source(name.trim())?;
    Ok(Reference { source, default: default.map(str::to_owned), filter, escape })
}

fn filter(name: &str) -> Result<Filter, Bad> {
    let names = || FILTERS.iter().map(|(name, _)| *name);
    let found = FILTERS.iter().find(|(filter, _)| *filter == name);
    found.map(|(_, filter)| *filter).ok_or_else(|| Bad {
        message: format!("unknown filter `{}`", shorten(name)),
        help: did_you_mean(name, names())
            .or_else(|| Some(format!("there are {}", names().collect::<Vec<_>>().join(", ")))),
    })
}

fn source(name: &str) -> Result<Source, Bad> {
    if name.is_empty() {
        return Err(Bad::new("an empty reference", "name a variable: `${token}`"));
    }
    let (head, rest) = match name.split_once('.') {
        Some((head, rest)) => (head, Some(rest)),
        None => (name, None),
    };
    match (head, rest) {
        ("env", Some(name)) if is_env_name(name) => Ok(Source::Env(name.to_owned())),
        ("env", _) => Err(Bad::new("which environment variable?", "write `${env.NAME}`")),
        ("secret", Some(name)) if is_env_name(name) => Ok(Source::Secret(name.to_owned())),
        // `${secret}` alone is a variable like any other.
        ("secret", Some(_)) => Err(Bad::new("which secret?", "write `${secret.NAME}`")),
        ("data", Some(rest)) => match rest.split_once('.') {
            Some((set, column)) if !column.is_empty() => {
                Ok(Source::Data { set: set.to_owned(), column: column.to_owned() })
            }
            _ => Err(Bad::new("which column?", "write `${data.SET.COLUMN}`")),
        },
        ("use", Some(key)) if !key.is_empty() => Ok(Source::Use(key.to_owned())),
        ("steps", Some(rest)) => step(rest),
        ("random", Some(call)) => random(call),
        ("uuid", None) => Ok(Source::Uuid),
        ("timestamp", form) => timestamp(form),
        ("vu", Some("id")) => Ok(Source::VuId),
        ("vu", Some("iteration")) => Ok(Source::VuIteration),
        ("vu", _) => Err(Bad::new(
            format!("unknown reference `{}`", shorten(name)),
            "there are `${vu.id}` and `${vu.iteration}`",
        )),
        ("iteration", None) => Ok(Source::Iteration),
        (_, None) if is_name(name) => Ok(Source::Variable(name.to_owned())),
        _ => Err(unknown(name)),
    }
}

fn is_env_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

fn unknown(name: &str) -> Bad {
    let head = name.split(['.', '(']).next().unwrap_or_default();
    let near = || did_you_mean(head, RESERVED.into_iter().filter(|word| *word != head));
    let help = match words::reference(name).or_else(near) {
        Some(help) => help,
        None => "a reference is a variable, or starts with env. secret. data. use. steps. random. \
                 timestamp vu. iteration"
            .into(),
    };
    Bad::new(format!("unknown reference `{}`", shorten(name)), help)
}

fn step(rest: &str) -> Result<Source, Bad> {
    let help = "write `${steps.NAME.status}`, `.body` or `.latency_ms`";
    // A step may have dots in its name; the field is the last word.
    let Some((name, field)) = rest.rsplit_once('.') else {
        return Err(Bad::new("which field of the step?", help));
    };
    let field = match field {
        "status" => StepField::Status,
        "body" => StepField::Body,
        "latency_ms" | "latency" => StepField::LatencyMs,
        _ => {
            return Err(Bad::new(format!("unknown field `{}`", shorten(field)), help));
        }
    };
    Ok(Source::Step { name: name.to_owned(), field })
}

fn timestamp(form: Option<&str>) -> Result<Source, Bad> {
    let form = match form {
        None | Some("s") => TimestampForm::Seconds,
        Some("ms") => TimestampForm::Milliseconds,
        Some("iso") => TimestampForm::Iso,
        Some(other) => {
            let message = format!("unknown form `{}` of a timestamp", shorten(other));
            return Err(Bad::new(
                message,
                "there are `timestamp`, `timestamp.ms` and `timestamp.iso`",
            ));
        }
    };
    Ok(Source::Timestamp(form))
}

fn random(call: &str) -> Result<Source, Bad> {
    let (name, arguments) = match call.split_once('(') {
        Some((name, rest)) => match rest.trim_end().strip_suffix(')') {
            Some(inner) => (name.trim(), Some(inner)),
            None => {
                let message = format!("`{}` has no `)`", shorten(call));
                return Err(Bad::new(message, "write `${random.int(1, 100)}`"));
            }
        },
        None => (call.trim(), None),
    };
    match (name, arguments) {
        ("uuid", None | Some("")) => Ok(Source::Uuid),
        ("word", None | Some("")) => Ok(Source::RandomWord),
        ("int", Some(arguments)) => int(arguments),
        ("string", Some(length)) => match length.trim().parse() {
            Ok(length @ 1..=65_536) => Ok(Source::RandomString { length }),
            _ => Err(Bad::new(
                format!("`{}` is not a length", shorten(length)),
                "write `${random.string(8)}`, up to 65536 characters",
            )),
        },
        ("int", None) => Err(Bad::new("between which numbers?", "write `${random.int(1, 100)}`")),
        ("string", None) => Err(Bad::new("how long?", "write `${random.string(8)}`")),
        _ => Err(Bad {
            message: format!("unknown generator `random.{}`", shorten(name)),
            help: did_you_mean(name, RANDOM)
                .or_else(|| Some("there are random.uuid, .word, .int(a, b), .string(n)".into())),
        }),
    }
}

fn int(arguments: &str) -> Result<Source, Bad> {
    let help = "write `${random.int(1, 100)}`, both included";
    let numbers: Vec<Option<i64>> =
        arguments.split(',').map(|number| number.trim().parse().ok()).collect();
    match numbers.as_slice() {
        [Some(min), Some(max)] if min <= max => Ok(Source::RandomInt { min: *min, max: *max }),
        [Some(_), Some(_)] => Err(Bad::new("the first number is larger than the second", help)),
        _ => Err(Bad::new(format!("`{}` are not two numbers", shorten(arguments)), help)),
    }
}
