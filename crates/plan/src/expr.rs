//! Conditions of `when` and `until`: `${role} == 'admin' and ${count} > 3`.

use crate::model::Comparison;
use crate::template::{Escape, Template};
use crate::units;

#[derive(Debug, Clone, PartialEq)]
pub enum Condition {
    All(Vec<Condition>),
    Any(Vec<Condition>),
    Not(Box<Condition>),
    /// Numbers are compared as numbers if both sides are; otherwise text with text.
    Compare {
        left: Template,
        op: Comparison,
        right: Template,
    },
    Contains {
        left: Template,
        right: Template,
    },
    /// `left matches 'regex'`
    Matches {
        left: Template,
        pattern: String,
    },
    /// A bare reference: true unless empty, `false` or `0`.
    Truthy(Template),
}

/// What is wrong with a condition, and where in its text (bytes).
pub type ConditionError = crate::template::TemplateError;

/// `not not not (((...)))` is a mistake, and every level costs stack.
const DEPTH_MAX: usize = 32;

impl Condition {
    /// Reads `${role} == 'admin' and (${count} > 3 or not ${done})`.
    pub fn parse(text: &str) -> Result<Condition, ConditionError> {
        let tokens = tokens(text)?;
        let mut parser = Parser { text, tokens: &tokens, at: 0, depth: 0 };
        let condition = parser.any()?;
        match parser.peek() {
            None => Ok(condition),
            Some(_) => Err(parser.wrong("`and`, `or` or the end")),
        }
    }

    /// All templates of the condition, in order.
    pub fn templates(&self) -> Vec<&Template> {
        match self {
            Condition::All(parts) | Condition::Any(parts) => {
                parts.iter().flat_map(Condition::templates).collect()
            }
            Condition::Not(inner) => inner.templates(),
            Condition::Compare { left, right, .. } | Condition::Contains { left, right } => {
                vec![left, right]
            }
            Condition::Matches { left, .. } => vec![left],
            Condition::Truthy(only) => vec![only],
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    /// A reference, a quoted text, or a bare number or word.
    Operand(Template),
    Op(Comparison),
    And,
    Or,
    Not,
    Contains,
    Matches,
    Open,
    Close,
}

struct Token {
    kind: Kind,
    start: usize,
    end: usize,
}

fn tokens(text: &str) -> Result<Vec<Token>, ConditionError> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let start = at;
        let rest = &text[at..];
        let kind = match first {
            c if c.is_whitespace() => {
                at += c.len_utf8();
                continue;
            }
            '(' => (Kind::Open, 1),
            ')' => (Kind::Close, 1),
            '\'' | '"' => quoted(text, at, first)?,
            '<' | '>' | '=' | '!' if units::comparison(rest).is_some() => {
                let symbol = rest.chars().take_while(|c| "<>=!".contains(*c)).count();
                let op = units::comparison(&rest[..symbol]).filter(|(_, rest)| rest.is_empty());
                let unknown = || {
                    let written = &rest[..symbol];
                    let message = format!("unknown operator `{written}`");
                    let mut error = error(start, start + symbol, message);
                    if matches!(written, "!==" | "<>" | "=!" | "><") {
                        error.help = Some("unequal is `!=`".into());
                    }
                    error
                };
                (Kind::Op(op.ok_or_else(unknown)?.0), symbol)
            }
            '!' => (Kind::Not, 1),
            '&' if rest.starts_with("&&") => (Kind::And, 2),
            '|' if rest.starts_with("||") => (Kind::Or, 2),
            _ => word(text, at)?,
        };
        at += kind.1;
        tokens.push(Token { kind: kind.0, start, end: at });
    }
    Ok(tokens)
}

fn error(start: usize, end: usize, message: impl Into<String>) -> ConditionError {
    let help = "write for example `${role} == 'admin' and ${count} > 3`";
    ConditionError { start, end, message: message.into(), help: Some(help.into()) }
}

/// A text in quotes, with references inside; returns its length in the source.
fn quoted(text: &str, at: usize, quote: char) -> Result<(Kind, usize), ConditionError> {
    let Some(length) = text[at + 1..].find(quote) else {
        return Err(error(at, text.len(), "this text has no end"));
    };
    Ok((Kind::Operand(template(&text[at + 1..at + 1 + length], at + 1)?), length + 2))
}

fn template(text: &str, at: usize) -> Result<Template, ConditionError> {
    Template::parse(text, Escape::None).map_err(|wrong| ConditionError {
        start: at + wrong.start,
        end: at + wrong.end,
        ..wrong
    })
}

/// A reference (which may contain blanks and quotes), a number, or an operator in letters.
fn word(text: &str, at: usize) -> Result<(Kind, usize), ConditionError> {
    let rest = &text[at..];
    let mut open = 0usize;
    let mut length = rest.len();
    for (offset, c) in rest.char_indices() {
        match c {
            '{' => open += 1,
            '}' => open = open.saturating_sub(1),
            c if open == 0 && (c.is_whitespace() || "()<>=!'\"&|".contains(c)) => {
                length = offset;
                break;
            }
            _ => {}
        }
    }
    let kind = match &rest[..length] {
        "" => {
            let length = rest.chars().next().map_or(1, char::len_utf8);
            return Err(error(at, at + length, format!("`{}` is unexpected", &rest[..length])));
        }
        "and" => Kind::And,
        "or" => Kind::Or,
        "not" => Kind::Not,
        "contains" => Kind::Contains,
        "matches" => Kind::Matches,
        word => Kind::Operand(template(word, at)?),
    };
    Ok((kind, length))
}

/// `any := all ('or' all)*`, `all := not ('and' not)*`, `not := 'not' not | '(' any ')' | test`.
struct Parser<'a> {
    text: &'a str,
    tokens: &'a [Token],
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&Kind> {
        self.tokens.get(self.at).map(|token| &token.kind)
    }

    fn take(&mut self, kind: &Kind) -> bool {
        let found = self.peek() == Some(kind);
        self.at += usize::from(found);
        found
    }

    fn wrong(&self, expected: &str) -> ConditionError {
        match self.tokens.get(self.at) {
            Some(token) => {
                let found = &self.text[token.start..token.end];
                error(token.start, token.end, format!("expected {expected}, found `{found}`"))
            }
            None => {
                let end = self.text.len();
                error(end, end, format!("expected {expected}, found the end"))
            }
        }
    }

    fn any(&mut self) -> Result<Condition, ConditionError> {
        let mut parts = vec![self.all()?];
        while self.take(&Kind::Or) {
            parts.push(self.all()?);
        }
        Ok(single(parts, Condition::Any))
    }

    fn all(&mut self) -> Result<Condition, ConditionError> {
        let mut parts = vec![self.not()?];
        while self.take(&Kind::And) {
            parts.push(self.not()?);
        }
        Ok(single(parts, Condition::All))
    }

    fn not(&mut self) -> Result<Condition, ConditionError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.wrong(&format!("at most {DEPTH_MAX} levels")));
        }
        let condition = if self.take(&Kind::Not) {
            Condition::Not(Box::new(self.not()?))
        } else if self.take(&Kind::Open) {
            let inner = self.any()?;
            if !self.take(&Kind::Close) {
                return Err(self.wrong("`)`"));
            }
            inner
        } else {
            self.test()?
        };
        self.depth -= 1;
        Ok(condition)
    }

    fn operand(&mut self) -> Result<Template, ConditionError> {
        match self.peek() {
            Some(Kind::Operand(template)) => {
                let template = template.clone();
                self.at += 1;
                Ok(template)
            }
            _ => Err(self.wrong("a reference, a number or a text in quotes")),
        }
    }

    fn test(&mut self) -> Result<Condition, ConditionError> {
        let left = self.operand()?;
        match self.peek() {
            Some(Kind::Op(op)) => {
                let op = *op;
                self.at += 1;
                Ok(Condition::Compare { left, op, right: self.operand()? })
            }
            Some(Kind::Contains) => {
                self.at += 1;
                Ok(Condition::Contains { left, right: self.operand()? })
            }
            Some(Kind::Matches) => {
                self.at += 1;
                self.pattern(left)
            }
            _ => Ok(Condition::Truthy(left)),
        }
    }

    fn pattern(&mut self, left: Template) -> Result<Condition, ConditionError> {
        let (start, end) = match self.tokens.get(self.at) {
            Some(token) => (token.start, token.end),
            None => (self.text.len(), self.text.len()),
        };
        let Some(pattern) = self.operand()?.as_literal().map(str::to_owned) else {
            return Err(error(start, end, "a pattern is fixed: references cannot stand in it"));
        };
        match regex::Regex::new(&pattern) {
            Ok(_) => Ok(Condition::Matches { left, pattern }),
            Err(bad) => Err(error(start, end, format!("not a regular expression: {bad}"))),
        }
    }
}

fn single(mut parts: Vec<Condition>, many: fn(Vec<Condition>) -> Condition) -> Condition {
    match parts.pop() {
        Some(only) if parts.is_empty() => only,
        Some(last) => {
            parts.push(last);
            many(parts)
        }
        None => many(parts),
    }
}

#[cfg(test)]
mod tests;
