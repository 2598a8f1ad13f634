//! The keys of a plan as a JSON Schema for editors, and as a page for people.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::keys;
use crate::shape::{Key, Limit, Object, Shape, describe};

/// JSON Schema, draft 2020-12; as strict as the check about keys, a little laxer about values.
pub fn schema() -> Value {
    let mut definitions = BTreeMap::new();
    collect(&keys::PLAN, &mut definitions);
    let defs: serde_json::Map<String, Value> = definitions
        .values()
        .filter(|object| object.name != keys::PLAN.name)
        .map(|object| (slug(object.name), object_schema(object)))
        .collect();
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://volley.dev/plan.schema.json",
        "title": "Volley plan",
    });
    let plan = object_schema(&keys::PLAN);
    if let (Some(schema), Value::Object(plan)) = (schema.as_object_mut(), plan) {
        schema.extend(plan);
        schema.insert("patternProperties".into(), json!({ "^x-": true }));
        schema.insert("$defs".into(), Value::Object(defs));
    }
    schema
}

/// All objects that can be reached, by name. Names must differ, or one would hide the other.
fn collect(object: &'static Object, into: &mut BTreeMap<&'static str, &'static Object>) {
    if into.insert(object.name, object).is_none() {
        object.keys.iter().for_each(|key| collect_shape(&key.shape, into));
    }
}

fn collect_shape(shape: &Shape, into: &mut BTreeMap<&'static str, &'static Object>) {
    match shape {
        Shape::Object(object) => collect(object, into),
        Shape::List(inner) | Shape::Many(inner) | Shape::Map(inner) => collect_shape(inner, into),
        Shape::Either(shapes) => shapes.iter().for_each(|shape| collect_shape(shape, into)),
        _ => {}
    }
}

fn slug(name: &str) -> String {
    name.replace(' ', "_")
}

fn object_schema(object: &Object) -> Value {
    let properties: serde_json::Map<String, Value> =
        object.keys.iter().map(|key| (key.name.to_owned(), key_schema(key))).collect();
    let required: Vec<&str> =
        object.keys.iter().filter(|key| key.required).map(|key| key.name).collect();
    let mut schema = json!({
        "type": "object",
        "description": object.doc,
        "properties": properties,
        "additionalProperties": false,
    });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn key_schema(key: &Key) -> Value {
    let mut schema = shape_schema(&key.shape);
    let mut description = key.doc.to_owned();
    if !key.default.is_empty() {
        let _ = write!(description, " Default: {}.", key.default);
    }
    if !key.example.is_empty() {
        let _ = write!(description, " Example: `{}`.", key.example);
    }
    schema["description"] = json!(description);
    schema
}

fn shape_schema(shape: &Shape) -> Value {
    // Quantities may come from the environment: `vus: ${env.VUS:-10}`.
    let from_env = json!({ "type": "string", "pattern": "\\$\\{env\\." });
    let or_env = |schema: Value| json!({ "anyOf": [schema, from_env] });
    match shape {
        Shape::Text(_) | Shape::Template | Shape::Status => {
            json!({ "type": ["string", "number", "boolean"] })
        }
        Shape::Flag => or_env(json!({ "type": "boolean" })),
        Shape::Count => or_env(json!({ "type": "integer", "minimum": 0 })),
        Shape::CountOrOff => or_env(json!({ "type": ["integer", "boolean"], "minimum": 0 })),
        Shape::Duration | Shape::TimeSpan | Shape::Rate => json!({ "type": "string" }),
        Shape::Size => json!({ "type": ["string", "integer"] }),
        Shape::Limit(Limit::Number | Limit::Duration | Limit::Size) => json!({ "type": "string" }),
        Shape::Choice(choices) => choice_schema(choices),
        Shape::List(inner) => json!({ "type": "array", "items": shape_schema(inner) }),
        Shape::Many(inner) => {
            let one = shape_schema(inner);
            json!({ "anyOf": [one.clone(), { "type": "array", "items": one }] })
        }
        Shape::Map(inner) => {
            json!({ "type": "object", "additionalProperties": shape_schema(inner) })
        }
        Shape::Object(object) => json!({ "$ref": format!("#/$defs/{}", slug(object.name)) }),
        Shape::Either(shapes) => {
            json!({ "anyOf": shapes.iter().map(shape_schema).collect::<Vec<_>>() })
        }
        Shape::Any => json!({}),
    }
}

/// Words that YAML reads as something else (`true`, `1.1`) are offered in that form too.
fn choice_schema(choices: &[&str]) -> Value {
    let mut values: Vec<Value> = Vec::new();
    for choice in choices {
        values.push(json!(choice));
        if let Ok(other) = serde_json::from_str::<Value>(choice) {
            values.push(other);
        }
    }
    json!({ "anyOf": [{ "enum": values }, { "type": "string", "pattern": "\\$\\{env\\." }] })
}

/// Every key with its meaning, as Markdown.
pub fn reference() -> String {
    let mut objects = Vec::new();
    in_order(&keys::PLAN, &mut objects);
    let mut page = String::from("# Plan keys\n\nMade from the keys that `volley` itself checks.\n");
    for object in objects {
        let _ = write!(page, "\n## {}\n\n{}\n\n", object.name, object.doc);
        page.push_str("| Key | Value | Meaning | Default |\n|---|---|---|---|\n");
        for key in object.keys {
            let required = if key.required { " (required)" } else { "" };
            let example = match key.example {
                "" => String::new(),
                example => format!(" For example `{example}`."),
            };
            let row = [
                format!("`{}`{required}", key.name),
                describe(&key.shape),
                format!("{}{example}", key.doc),
                key.default.to_owned(),
            ];
            let cells: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
            let _ = writeln!(page, "| {} |", cells.join(" | "));
        }
    }
    page
}

/// Objects in the order in which a reader meets them.
fn in_order(object: &'static Object, into: &mut Vec<&'static Object>) {
    if into.iter().any(|known| std::ptr::eq(*known, object)) {
        return;
    }
    into.push(object);
    object.keys.iter().for_each(|key| shape_in_order(&key.shape, into));
}

fn shape_in_order(shape: &Shape, into: &mut Vec<&'static Object>) {
    match shape {
        Shape::Object(object) => in_order(object, into),
        Shape::List(inner) | Shape::Many(inner) | Shape::Map(inner) => shape_in_order(inner, into),
        Shape::Either(shapes) => shapes.iter().for_each(|shape| shape_in_order(shape, into)),
        _ => {}
    }
}
