//! Conditions of `when` and `until`.

use super::Context;
use crate::expr::Condition;
use crate::template::{Escape, Template, is_name};
use crate::tree::{Node, shorten};

pub fn condition(cx: &Context<'_>, node: &Node) -> Option<Condition> {
    let text = node.text()?;
    cx.note_foreign(node, text, Escape::Header);
    let condition = match Condition::parse(text) {
        Ok(condition) => condition,
        Err(wrong) => {
            cx.template_error(node, wrong);
            return None;
        }
    };
    // An apostrophe may well be typographic.
    if text.contains(['“', '”', '„', '‘', '‚']) {
        cx.report(node.place, "typographic quotes are a part of the text that is compared")
            .help("use ' around a text: `${role} == 'admin'`");
    }
    constants(cx, node, &condition);
    Some(fill(cx, node, condition))
}

/// A comparison without a reference is the same in every iteration: `role == 'admin'`.
fn constants(cx: &Context<'_>, node: &Node, condition: &Condition) {
    match condition {
        Condition::All(parts) | Condition::Any(parts) => {
            parts.iter().for_each(|part| constants(cx, node, part));
        }
        Condition::Not(inner) => constants(cx, node, inner),
        // `when: false` is how a step is switched off.
        Condition::Truthy(only) if matches!(only.as_literal(), Some("true" | "false")) => {}
        leaf => {
            let templates = leaf.templates();
            if templates.iter().any(|template| template.references().next().is_some()) {
                return;
            }
            let words: Vec<&str> = templates.into_iter().filter_map(Template::as_literal).collect();
            let name = words.iter().find(|word| is_name(word));
            let help = match name {
                Some(name) => {
                    let name = shorten(name);
                    format!("a variable is written `${{{name}}}`: `{}`", as_reference(node, &name))
                }
                None => "compare with a variable: `${role} == 'admin'`".to_owned(),
            };
            let message = format!(
                "the condition `{}` has no reference, so it is always the same",
                shorten(node.text().unwrap_or_default())
            );
            cx.report(node.place, message).help(help);
        }
    }
}

/// The condition with its first word as a reference.
fn as_reference(node: &Node, name: &str) -> String {
    let text = node.text().unwrap_or_default();
    shorten(&text.replacen(name, &format!("${{{name}}}"), 1))
}

/// Fills in the environment and notes the references.
fn fill(cx: &Context<'_>, node: &Node, condition: Condition) -> Condition {
    let all = |parts: Vec<Condition>| parts.into_iter().map(|part| fill(cx, node, part)).collect();
    match condition {
        Condition::All(parts) => Condition::All(all(parts)),
        Condition::Any(parts) => Condition::Any(all(parts)),
        Condition::Not(inner) => Condition::Not(Box::new(fill(cx, node, *inner))),
        Condition::Compare { left, op, right } => {
            Condition::Compare { left: cx.fill(node, left), op, right: cx.fill(node, right) }
        }
        Condition::Contains { left, right } => {
            Condition::Contains { left: cx.fill(node, left), right: cx.fill(node, right) }
        }
        Condition::Matches { left, pattern } => {
            Condition::Matches { left: cx.fill(node, left), pattern }
        }
        Condition::Truthy(only) => Condition::Truthy(cx.fill(node, only)),
    }
}
