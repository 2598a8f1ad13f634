//! The examples of the repository and the starter are plans, and say what they should.

use std::time::Duration;

use plan::{Action, Executor, Format, Plan, ReadOptions, StatusRange, layers, read_file};

use super::{examples, try_read};

const ALL: [&str; 4] = ["checkout.yaml", "quickstart.yaml", "quickstart.toml", "api.json"];

fn read(name: &str) -> Plan {
    let options = ReadOptions::new(&|_| None);
    read_file(&examples().join(name), &options).unwrap_or_else(|problems| panic!("{problems}"))
}

#[test]
fn every_example_reads() {
    ALL.iter().for_each(|name| assert!(!read(name).workflows.is_empty(), "{name}"));
}

#[test]
fn every_starter_is_the_same_plan_in_every_format() {
    for starter in &plan::STARTERS {
        let read = |format| {
            let text = starter.text(format);
            assert!(text.contains(plan::SCHEMA_FILE), "{text}");
            try_read(&text, format).unwrap_or_else(|problems| panic!("{problems}\n{text}"))
        };
        let yaml = read(Format::Yaml);
        assert_eq!(yaml.target.as_ref().unwrap().as_literal(), Some("http://127.0.0.1:8080"));
        for format in [Format::Toml, Format::Json] {
            assert_eq!(format!("{:?}", read(format)), format!("{yaml:?}"), "{}", starter.name);
        }
    }
}

#[test]
fn the_checkout_plan_means_what_it_says() {
    let plan = read("checkout.yaml");
    assert_eq!(plan.http.timeout, Duration::from_secs(10));
    assert_eq!((plan.data[0].rows, plan.data[0].columns.len()), (20, 3));
    assert_eq!(layers(&plan), [[0], [1]]);
    let Executor::RampingVus { start: 0, stages, .. } = &plan.workflows[0].load.executor else {
        panic!("{:?}", plan.workflows[0].load)
    };
    assert_eq!(stages.iter().map(|stage| stage.to).collect::<Vec<_>>(), [50, 50, 0]);
    let Action::Request(cart) = &plan.workflows[0].steps[1].action else { panic!() };
    assert_eq!(cart.url.as_literal(), Some("/cart?region=eu"));
    let names: Vec<&str> = cart.checks.iter().map(|check| check.name.as_str()).collect();
    assert_eq!(names, ["status is 200", "body contains items", "latency < 250ms"]);
    let plan::CheckKind::Status(good) = &cart.checks[0].kind else { panic!() };
    assert_eq!(good, &[StatusRange { from: 200, to: 200 }]);
    let thresholds: Vec<&str> = plan.thresholds.iter().map(|t| t.text.as_str()).collect();
    assert_eq!(thresholds, ["p(95) < 200ms", "rate > 99%", "rate < 1%"]);
}

#[test]
fn the_same_plan_in_toml_is_the_same_plan() {
    // Base folders and files are the same, so all that is printed is.
    assert_eq!(format!("{:?}", read("quickstart.yaml")), format!("{:?}", read("quickstart.toml")));
}

/// Walks an example along the schema; every key must be known to it.
fn known(schema: &serde_json::Value, root: &serde_json::Value, value: &serde_json::Value) -> bool {
    if let Some(target) = schema["$ref"].as_str() {
        let target = root.pointer(target.trim_start_matches('#')).expect("a definition");
        return known(target, root, value);
    }
    if let Some(any) = schema["anyOf"].as_array() {
        return any.iter().any(|one| known(one, root, value));
    }
    let of_type = |name: &str| match &schema["type"] {
        serde_json::Value::String(only) => only == name,
        serde_json::Value::Array(many) => many.iter().any(|one| one == name),
        _ => schema["enum"].is_null(),
    };
    match value {
        serde_json::Value::Object(map) => {
            of_type("object")
                && map.iter().all(|(key, value)| {
                    match (&schema["properties"][key], &schema["additionalProperties"]) {
                        (serde_json::Value::Null, serde_json::Value::Bool(false)) => false,
                        (serde_json::Value::Null, rest) => known(rest, root, value),
                        (property, _) => known(property, root, value),
                    }
                })
        }
        serde_json::Value::Array(items) => {
            of_type("array") && items.iter().all(|item| known(&schema["items"], root, item))
        }
        serde_json::Value::String(_) if schema["pattern"].is_string() => false,
        scalar if schema["enum"].is_array() => schema["enum"].as_array().unwrap().contains(scalar),
        serde_json::Value::String(_) => of_type("string"),
        serde_json::Value::Number(_) => of_type("number") || of_type("integer"),
        serde_json::Value::Bool(_) => of_type("boolean"),
        serde_json::Value::Null => true,
    }
}

#[test]
fn every_key_of_the_examples_is_known_to_the_schema() {
    let schema = plan::schema();
    let text = std::fs::read_to_string(examples().join("api.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(known(&schema, &schema, &json));
    let mut wrong = json.clone();
    wrong["workflows"][0]["steps"][0]["thnik"] = "1s".into();
    assert!(!known(&schema, &schema, &wrong));
    let mut wrong = json;
    wrong["workflows"][0]["priority"] = "huge".into();
    assert!(!known(&schema, &schema, &wrong));
}

#[test]
fn the_schema_describes_every_key_and_refuses_others() {
    let schema = plan::schema();
    let objects = schema["$defs"].as_object().unwrap().values().chain([&schema]);
    for object in objects {
        assert_eq!(object["additionalProperties"], false);
        for (key, property) in object["properties"].as_object().unwrap() {
            assert!(property["description"].as_str().is_some_and(|d| d.len() > 3), "{key}");
        }
    }
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
}

#[test]
fn the_reference_has_a_table_for_every_kind_of_map() {
    let page = plan::reference();
    for heading in ["## plan", "## workflow", "## load", "## step", "## check", "## threshold"] {
        assert!(page.contains(heading), "{heading}");
    }
    let row =
        "| `hold` (required) | a condition | The condition. For example `p(95) < 200ms`. |  |";
    assert!(page.contains(row));
}
