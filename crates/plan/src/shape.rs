//! What a plan looks like: one definition, and the check of a tree against it.
//!
//! The definition itself is in [`crate::keys`]; the JSON Schema and the key reference are printed
//! from it too ([`crate::schema`]), so what editors complete is what the check accepts.
//!
//! The check reports unknown keys, missing keys, wrong types and malformed quantities. Decoding,
//! which comes after it, passes over what is misshapen without a word.

mod advice;

use base::names::did_you_mean;

use crate::problem::Finding;
use crate::template::{Escape, Part, Source, Template};
use crate::tree::{Entry, Node, Value, shorten};
use crate::units::{self, Wrong};
use crate::words;

/// What may stand at a place.
#[derive(Debug, Clone, Copy)]
pub enum Shape {
    /// Text as it is: names, paths, patterns. The word is for messages: `a name`.
    Text(&'static str),
    /// Text with references.
    Template,
    Flag,
    Count,
    /// A count, or `false` for none.
    CountOrOff,
    Duration,
    TimeSpan,
    Rate,
    Size,
    Status,
    /// A comparison with a number, a time or a size.
    Limit(Limit),
    Choice(&'static [&'static str]),
    List(&'static Shape),
    /// A value, or a list of them.
    Many(&'static Shape),
    /// Free names, all with values of one shape.
    Map(&'static Shape),
    Object(&'static Object),
    /// The first whose kind (scalar, list, map) fits.
    Either(&'static [Shape]),
    /// Anything at all: a JSON body.
    Any,
}

#[derive(Debug, Clone, Copy)]
pub enum Limit {
    Number,
    Duration,
    Size,
}

/// A map with known keys.
#[derive(Debug)]
pub struct Object {
    pub name: &'static str,
    pub doc: &'static str,
    pub keys: &'static [Key],
}

#[derive(Debug, Clone, Copy)]
pub struct Key {
    pub name: &'static str,
    pub shape: Shape,
    pub doc: &'static str,
    pub required: bool,
    pub example: &'static str,
    pub default: &'static str,
}

impl Key {
    pub const fn new(name: &'static str, shape: Shape, doc: &'static str) -> Key {
        Key { name, shape, doc, required: false, example: "", default: "" }
    }

    pub const fn required(mut self) -> Key {
        self.required = true;
        self
    }

    pub const fn example(mut self, example: &'static str) -> Key {
        self.example = example;
        self
    }

    pub const fn default(mut self, default: &'static str) -> Key {
        self.default = default;
        self
    }
}

/// The environment, as handed in by the caller.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Checks a tree, and fills in `${env.NAME}` where no other reference may stand.
pub fn check(root: &mut Node, shape: &Shape, env: Env<'_>, toml: Option<&str>) -> Vec<Finding> {
    let mut checker = Checker { env, toml, key: "", findings: Vec::new() };
    checker.node(root, shape);
    checker.findings
}

struct Checker<'a> {
    env: Env<'a>,
    /// The text, if it is TOML: where a key stands depends on the header above it.
    toml: Option<&'a str>,
    /// The last key that was met, for messages about its value.
    key: &'static str,
    findings: Vec<Finding>,
}

/// Coarse kinds, by which `Either` decides.
#[derive(PartialEq)]
enum Kind {
    Scalar,
    List,
    Map,
}

impl Checker<'_> {
    fn report(&mut self, node: &Node, wrong: Wrong) {
        self.findings.push(Finding::new(node.place, wrong.message).maybe_help(wrong.help));
    }

    fn node(&mut self, node: &mut Node, shape: &Shape) {
        match shape {
            Shape::Any => {}
            Shape::Many(inner) => match &mut node.value {
                Value::List(items) => items.iter_mut().for_each(|item| self.node(item, inner)),
                _ => self.node(node, inner),
            },
            Shape::List(inner) => match &mut node.value {
                Value::List(items) => items.iter_mut().for_each(|item| self.node(item, inner)),
                _ => self.mismatch(node, shape),
            },
            Shape::Map(inner) => match &mut node.value {
                Value::Map(entries) => {
                    entries.iter_mut().for_each(|entry| self.node(&mut entry.value, inner));
                }
                _ => self.mismatch(node, shape),
            },
            Shape::Object(object) => match &mut node.value {
                Value::Map(entries) => {
                    self.keys(entries, object);
                    self.missing(node, object);
                }
                _ => self.mismatch(node, shape),
            },
            Shape::Either(shapes) => {
                let kind = kind_of(node);
                match shapes.iter().find(|shape| accepts(shape, &kind)) {
                    Some(shape) => self.node(node, shape),
                    None => self.mismatch(node, shape),
                }
            }
            leaf => self.leaf(node, leaf),
        }
    }

    fn keys(&mut self, entries: &mut [Entry], object: &Object) {
        let mut empty = None;
        for entry in entries {
            if let Some(key) = object.keys.iter().find(|key| key.name == entry.key) {
                // `headers:` with nothing after it, its lines commented out, is the same as no key;
                // `get:` with nothing after it is a mistake.
                let absent = matches!(entry.value.value, Value::Null);
                let holds_more = [Kind::List, Kind::Map].iter().any(|k| accepts(&key.shape, k));
                self.key = key.name;
                empty = (absent && holds_more).then_some((key.name, entry.place.line));
                if key.required || !absent || !holds_more {
                    self.node(&mut entry.value, &key.shape);
                }
                continue;
            }
            // As in Compose files: a home for anchors, free for anything.
            if object.name == "plan" && entry.key.starts_with("x-") {
                continue;
            }
            let message = format!("unknown key `{}` in {}", shorten(&entry.key), object.name);
            let names = object.keys.iter().map(|key| key.name);
            let all = || {
                let names: Vec<_> = object.keys.iter().map(|key| key.name).collect();
                let own = match (object.name, &entry.value.value) {
                    ("plan", Value::Map(_) | Value::List(_)) => {
                        format!(
                            "; a block of your own, for YAML anchors, is called `x-{}`",
                            shorten(&entry.key)
                        )
                    }
                    _ => String::new(),
                };
                format!("the keys are {}{own}", names.join(", "))
            };
            let help = advice::meant(object, &entry.key)
                .or_else(|| advice::not_indented(empty, &entry.key))
                .or_else(|| words::key(object.name, &entry.key))
                .or_else(|| advice::named_by_key(object, &entry.key, &entry.value))
                .or_else(|| did_you_mean(&entry.key, names))
                .or_else(|| advice::belongs_elsewhere(object, entry, self.toml))
                .unwrap_or_else(all);
            self.findings.push(Finding::new(entry.place, message).help(help));
        }
    }

    fn missing(&mut self, node: &Node, object: &Object) {
        for key in object.keys.iter().filter(|key| key.required && node.get(key.name).is_none()) {
            let message = format!("the key `{}` is missing in {}", key.name, object.name);
            let help = match key.example {
                "" => key.doc.to_owned(),
                example => format!("for example `{}: {example}`", key.name),
            };
            self.findings.push(Finding::new(node.place, message).help(help));
        }
    }

    fn mismatch(&mut self, node: &Node, shape: &Shape) {
        let wrong = Wrong {
            message: format!("expected {}, found {}", describe(shape), node.describe()),
            help: advice::of_key(self.key, node, shape)
                .or_else(|| advice::list_in_toml(node, shape, self.toml))
                .or_else(|| advice::hint(node, shape)),
        };
        self.report(node, wrong);
    }

    fn leaf(&mut self, node: &mut Node, shape: &Shape) {
        if !matches!(shape, Shape::Template) && !self.fill_env(node) {
            return;
        }
        let Some(text) = node.text() else {
            return self.mismatch(node, shape);
        };
        let wrong = match shape {
            Shape::Text(_) if text.is_empty() => {
                return self.mismatch(node, shape);
            }
            Shape::Flag if node.flag().is_none() => return self.mismatch(node, shape),
            Shape::CountOrOff if node.count().is_none() && node.flag().is_none() => {
                return self.mismatch(node, shape);
            }
            Shape::Count if node.count().is_none() => return self.mismatch(node, shape),
            Shape::Choice(choices) => choice(text, choices).map(|wrong| {
                let help = advice::of_choice(text).or(wrong.help);
                Wrong { help, ..wrong }
            }),
            Shape::Duration => units::duration(text).err(),
            Shape::TimeSpan => units::span(text).err(),
            Shape::Rate => units::rate(text).err(),
            Shape::Size => units::size(text).err(),
            Shape::Status => units::status(text).err(),
            Shape::Limit(Limit::Number) => units::number_limit(text).err(),
            Shape::Limit(Limit::Duration) => units::duration_limit(text).err(),
            Shape::Limit(Limit::Size) => units::size_limit(text).err(),
            _ => None,
        };
        if let Some(mut wrong) = wrong {
            if text.contains("${") {
                wrong.help = Some(advice::REFERENCE.to_owned());
            }
            self.report(node, wrong);
        }
    }

    /// `vus: ${env.VUS:-10}`: quantities and names may come from the environment, too.
    /// Returns whether the value is worth looking at.
    fn fill_env(&mut self, node: &mut Node) -> bool {
        let Value::Text(text) = &node.value else {
            return true;
        };
        if !text.contains("${env.") {
            return true;
        }
        let Ok(template) = Template::parse(text, Escape::None) else {
            return true;
        };
        let mut filled = String::new();
        for part in &template.parts {
            let reference = match part {
                Part::Text(text) => {
                    filled.push_str(text);
                    continue;
                }
                Part::Reference(reference) => reference,
            };
            let Source::Env(name) = &reference.source else {
                return true;
            };
            let value = (self.env)(name).filter(|value| !value.is_empty());
            match value.or_else(|| reference.default.clone()) {
                Some(value) => reference.write(&value, &mut filled),
                None => {
                    let finding = Finding::new(node.place, unset(name));
                    self.findings.push(finding.help(unset_help(name)));
                    return false;
                }
            }
        }
        node.value = match filled.as_str() {
            "true" => Value::Flag(true),
            "false" => Value::Flag(false),
            _ if units::number(&filled).is_some() => Value::Number(filled),
            _ => Value::Text(filled),
        };
        true
    }
}

pub fn unset(name: &str) -> String {
    format!("the environment variable `{name}` is not set")
}

pub fn unset_help(name: &str) -> String {
    format!("set it, pass `-e {name}=VALUE`, or give a default: `${{env.{name}:-VALUE}}`")
}

fn choice(text: &str, choices: &[&str]) -> Option<Wrong> {
    let lower = text.to_ascii_lowercase();
    if choices.contains(&lower.as_str()) {
        return None;
    }
    let help = did_you_mean(&lower, choices.iter().copied());
    let message = format!("`{}` is not one of {}", shorten(text), choices.join(", "));
    Some(Wrong { message, help })
}

fn kind_of(node: &Node) -> Kind {
    match node.value {
        Value::List(_) => Kind::List,
        Value::Map(_) => Kind::Map,
        _ => Kind::Scalar,
    }
}

fn accepts(shape: &Shape, kind: &Kind) -> bool {
    match shape {
        Shape::List(_) => *kind == Kind::List,
        Shape::Map(_) | Shape::Object(_) => *kind == Kind::Map,
        Shape::Many(inner) => *kind == Kind::List || accepts(inner, kind),
        Shape::Either(shapes) => shapes.iter().any(|shape| accepts(shape, kind)),
        Shape::Any => true,
        _ => *kind == Kind::Scalar,
    }
}

/// What is expected, in words.
pub fn describe(shape: &Shape) -> String {
    match shape {
        Shape::Text(what) => (*what).into(),
        Shape::Template => "text".into(),
        Shape::Flag => "`true` or `false`".into(),
        Shape::Count => "a whole number".into(),
        Shape::CountOrOff => "a whole number or `false`".into(),
        Shape::Duration => "a time such as `30s`".into(),
        Shape::TimeSpan => "a time such as `1s` or `100ms..300ms`".into(),
        Shape::Rate => "a rate such as `200/s`".into(),
        Shape::Size => "a size such as `10MB`".into(),
        Shape::Status => "a status such as `200` or `2xx`".into(),
        Shape::Limit(Limit::Number) => "a comparison such as `> 3`".into(),
        Shape::Limit(Limit::Duration) => "a comparison such as `< 250ms`".into(),
        Shape::Limit(Limit::Size) => "a comparison such as `< 10KB`".into(),
        Shape::Choice(choices) => format!("one of {}", choices.join(", ")),
        Shape::List(inner) => format!("a list of {}", plural(inner)),
        Shape::Many(inner) => format!("{} or a list", describe(inner)),
        Shape::Map(inner) => format!("a map of names to {}", plural(inner)),
        Shape::Object(object) => format!("a map ({})", object.name),
        Shape::Either(shapes) => shapes.iter().map(describe).collect::<Vec<_>>().join(" or "),
        Shape::Any => "any value".into(),
    }
}

fn plural(shape: &Shape) -> String {
    match shape {
        Shape::Object(object) => format!("maps ({})", object.name),
        Shape::Text(what) => {
            let what = what.trim_start_matches("a ").trim_start_matches("an ");
            let ending = if what.ends_with('s') { "es" } else { "s" };
            format!("{what}{ending}")
        }
        Shape::Template => "texts".into(),
        other => format!("values ({})", describe(other)),
    }
}
