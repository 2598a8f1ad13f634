//! Templates, compiled: literal bytes and numbered sources, rendered straight into a buffer.

use base::clock;
use base64::Engine as _;
use plan::template::{
    Escape, Filter, Part, Source, StepField, Template, TimestampForm, write_value,
};

use crate::vars::{Form, Vars};
use crate::words::WORDS;

/// Adjacent literals are merged, so a constant text is one literal.
#[derive(Debug, Clone, Default)]
pub struct Text {
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone)]
enum Piece {
    Literal(Vec<u8>),
    Value {
        from: Feed,
        escape: Escape,
        filter: Option<Filter>,
        default: Option<Box<[u8]>>,
    },
    /// `user:password` in base64.
    Basic {
        user: Text,
        password: Text,
    },
}

/// Where a value comes from at run time.
#[derive(Debug, Clone)]
enum Feed {
    Slot(usize),
    Data { set: usize, column: usize },
    Uuid,
    Int { min: i64, max: i64 },
    Letters(u32),
    Word,
    Timestamp(TimestampForm),
    VuId,
    VuIteration,
    Iteration,
}

/// Finds the numbers of names while a plan is compiled.
pub trait Names {
    fn slot(&mut self, name: &str) -> usize;
    /// Somebody refers to the slot; without a default, a value is needed.
    fn refer(&mut self, slot: usize, has_default: bool);
    fn data(&mut self, set: &str, column: &str) -> Option<(usize, usize)>;
    /// The value of a secret; who does not know it remembers that it is wanted.
    fn secret(&mut self, name: &str, default: Option<&str>) -> String;
}

/// The slot name of `${use.KEY}`; cannot clash with a variable.
pub fn use_slot(key: &str) -> String {
    format!("use.{key}")
}

/// The slot name of `${steps.NAME.FIELD}`.
pub fn step_slot(name: &str, field: StepField) -> String {
    let field = match field {
        StepField::Status => "status",
        StepField::Body => "body",
        StepField::LatencyMs => "latency_ms",
    };
    format!("steps.{name}.{field}")
}

impl Text {
    pub fn literal(bytes: impl Into<Vec<u8>>) -> Text {
        let mut text = Text::default();
        text.push_literal(&bytes.into());
        text
    }

    pub fn basic(user: Text, password: Text) -> Text {
        match (user.constant(), password.constant()) {
            (Some(user), Some(password)) => {
                let pair = [user, b":", password].concat();
                Text::literal(base64::engine::general_purpose::STANDARD.encode(pair))
            }
            _ => Text { pieces: vec![Piece::Basic { user, password }] },
        }
    }

    pub fn compile(template: &Template, names: &mut dyn Names) -> Text {
        let mut text = Text::default();
        for part in &template.parts {
            match part {
                Part::Text(literal) => text.push_literal(literal.as_bytes()),
                Part::Reference(reference) => {
                    let escape = reference.escape;
                    if let Source::Secret(name) = &reference.source {
                        let value = names.secret(name, reference.default.as_deref());
                        let mut rendered = Vec::new();
                        write_value(value.as_bytes(), reference.filter, escape, &mut rendered);
                        text.push_literal(&rendered);
                        continue;
                    }
                    let default = reference.default.as_ref().map(|text| text.as_bytes().into());
                    match feed(&reference.source, names) {
                        Some(from) => {
                            if let Feed::Slot(slot) = from {
                                names.refer(slot, default.is_some());
                            }
                            let filter = reference.filter;
                            text.pieces.push(Piece::Value { from, escape, filter, default });
                        }
                        // Resolved when the plan was read; what is left is its default.
                        None => {
                            let mut rendered = Vec::new();
                            let value = reference.default.as_deref().unwrap_or_default();
                            write_value(value.as_bytes(), reference.filter, escape, &mut rendered);
                            text.push_literal(&rendered);
                        }
                    }
                }
            }
        }
        text
    }

    pub fn push(&mut self, other: &Text) {
        for piece in &other.pieces {
            match piece {
                Piece::Literal(bytes) => self.push_literal(bytes),
                other => self.pieces.push(other.clone()),
            }
        }
    }

    pub fn push_literal(&mut self, bytes: &[u8]) {
        match self.pieces.last_mut() {
            _ if bytes.is_empty() => {}
            Some(Piece::Literal(last)) => last.extend_from_slice(bytes),
            _ => self.pieces.push(Piece::Literal(bytes.to_vec())),
        }
    }

    /// The text after its first `length` bytes, which must be literal.
    pub fn without_prefix(&self, length: usize) -> Text {
        let mut pieces = self.pieces.clone();
        if let Some(Piece::Literal(first)) = pieces.first_mut() {
            first.drain(..length.min(first.len()));
        }
        Text { pieces }
    }

    /// The whole text, if nothing in it changes.
    pub fn constant(&self) -> Option<&[u8]> {
        match self.pieces.as_slice() {
            [] => Some(&[]),
            [Piece::Literal(bytes)] => Some(bytes),
            _ => None,
        }
    }

    pub fn render(&self, vars: &Vars, out: &mut Vec<u8>) {
        for piece in &self.pieces {
            match piece {
                Piece::Literal(bytes) => out.extend_from_slice(bytes),
                Piece::Value { from, escape, filter, default } => {
                    from.render(vars, default.as_deref(), *escape, *filter, out);
                }
                Piece::Basic { user, password } => {
                    let mut pair = Vec::new();
                    user.render(vars, &mut pair);
                    pair.push(b':');
                    password.render(vars, &mut pair);
                    let encoded = base64::engine::general_purpose::STANDARD.encode(pair);
                    out.extend_from_slice(encoded.as_bytes());
                }
            }
        }
    }

    /// Adds the slots without which this cannot be rendered.
    pub fn needs(&self, slots: &mut Vec<usize>) {
        for piece in &self.pieces {
            match piece {
                Piece::Value { from: Feed::Slot(slot), default: None, .. } => slots.push(*slot),
                Piece::Basic { user, password } => {
                    user.needs(slots);
                    password.needs(slots);
                }
                Piece::Value { .. } | Piece::Literal(_) => {}
            }
        }
    }

    /// Whether every value is there, or has a default.
    pub fn is_ready(&self, vars: &Vars) -> bool {
        self.pieces.iter().all(|piece| match piece {
            Piece::Value { from: Feed::Slot(slot), default: None, .. } => vars.has(*slot),
            Piece::Basic { user, password } => user.is_ready(vars) && password.is_ready(vars),
            Piece::Value { .. } | Piece::Literal(_) => true,
        })
    }

    /// A text that is one variable has its form.
    fn form(&self, vars: &Vars) -> Form {
        match self.pieces.as_slice() {
            [Piece::Value { from: Feed::Slot(slot), filter: None, .. }] => {
                vars.with(*slot, |value| value.map(|(_, form)| form).unwrap_or_default())
            }
            _ => Form::Text,
        }
    }

    /// Sets a variable to this; it has no value if a part of it has none.
    pub fn assign(&self, slot: usize, vars: &Vars) {
        if self.is_ready(vars) {
            let (value, form) = (self.to_bytes(vars), self.form(vars));
            vars.set_as(slot, &value, form);
        } else {
            vars.clear(slot);
        }
    }

    pub fn to_bytes(&self, vars: &Vars) -> Vec<u8> {
        let mut out = Vec::new();
        self.render(vars, &mut out);
        out
    }
}

fn feed(source: &Source, names: &mut dyn Names) -> Option<Feed> {
    Some(match source {
        Source::Env(_) | Source::Secret(_) => return None,
        Source::Data { set, column } => {
            let (set, column) = names.data(set, column)?;
            Feed::Data { set, column }
        }
        Source::Use(key) => Feed::Slot(names.slot(&use_slot(key))),
        Source::Step { name, field } => Feed::Slot(names.slot(&step_slot(name, *field))),
        Source::Variable(name) => Feed::Slot(names.slot(name)),
        Source::Uuid => Feed::Uuid,
        Source::RandomInt { min, max } => Feed::Int { min: *min, max: *max },
        Source::RandomString { length } => Feed::Letters(*length),
        Source::RandomWord => Feed::Word,
        Source::Timestamp(form) => Feed::Timestamp(*form),
        Source::VuId => Feed::VuId,
        Source::VuIteration => Feed::VuIteration,
        Source::Iteration => Feed::Iteration,
    })
}

impl Feed {
    fn render(
        &self,
        vars: &Vars,
        default: Option<&[u8]>,
        escape: Escape,
        filter: Option<Filter>,
        out: &mut Vec<u8>,
    ) {
        use std::io::Write;
        // Writing to a vector cannot fail.
        let number = |value: u64, out: &mut Vec<u8>| drop(write!(out, "{value}"));
        match self {
            Feed::Slot(slot) => vars.with(*slot, |value| {
                let value = value.filter(|(value, _)| !value.is_empty() || default.is_none());
                match value {
                    Some((value, Form::Json)) if escape == Escape::JsonValue => {
                        out.extend_from_slice(value);
                    }
                    value => {
                        let value = value.map(|(value, _)| value).or(default).unwrap_or_default();
                        write_value(value, filter, escape, out);
                    }
                }
            }),
            Feed::Data { set, column } => {
                let rows = &vars.data[*set];
                let at = vars.rows.borrow()[*set] * rows.columns.len() + column;
                write_value(rows.cells[at].as_bytes(), filter, escape, out);
            }
            // What follows never needs escaping; a filter may still apply.
            Feed::VuId => number(vars.vu_id.get(), out),
            Feed::VuIteration => number(vars.vu_iteration.get(), out),
            Feed::Iteration => number(vars.iteration.get(), out),
            Feed::Int { min, max } => {
                let drawn = vars.rng.borrow_mut().i64(*min..=*max);
                let _ = write!(out, "{drawn}");
            }
            Feed::Letters(length) => {
                let mut rng = vars.rng.borrow_mut();
                out.extend((0..*length).map(|_| rng.alphanumeric() as u8));
            }
            Feed::Word => {
                let word = WORDS[vars.rng.borrow_mut().usize(..WORDS.len())];
                write_value(word.as_bytes(), filter, escape, out);
            }
            Feed::Uuid => out.extend_from_slice(uuid(&mut vars.rng.borrow_mut()).as_bytes()),
            Feed::Timestamp(form) => {
                let now = clock::unix_now();
                match form {
                    TimestampForm::Seconds => number(now.as_secs(), out),
                    TimestampForm::Milliseconds => number(now.as_millis() as u64, out),
                    TimestampForm::Iso => {
                        let text = stats::time::rfc3339_ms(now.as_millis() as u64);
                        write_value(text.as_bytes(), filter, escape, out);
                    }
                }
            }
        }
    }
}

/// Version 4, from a generator that is not fit for secrets.
fn uuid(rng: &mut fastrand::Rng) -> String {
    let bits = rng.u128(..) & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let hex = format!("{bits:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_is_of_version_four() {
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..1000 {
            let text = uuid(&mut rng);
            assert_eq!(text.len(), 36);
            assert_eq!(&text[14..15], "4");
            assert!(matches!(&text[19..20], "8" | "9" | "a" | "b"), "{text}");
        }
    }
}
