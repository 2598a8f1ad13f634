//! What a script shows of how it understands the life of a test.

use super::parse::{Language, parse};

fn said(text: &str) -> String {
    let text = format!("import http from 'k6/http';\n{text}");
    let hints = parse("a", &text, Language::JavaScript).unwrap().hints;
    let all = hints.of_entry.into_iter().chain(hints.warnings).map(|(_, text)| text);
    all.collect::<Vec<_>>().join("\n")
}

#[test]
fn what_k6_looks_for_and_the_script_does_not_export_is_said() {
    let main = "export default function () { http.get('x'); }";
    for (text, expected) in [
        ("const options = { vus: 3 };", "write `export const options`"),
        ("function setup() { return 1; }", "write `export function setup()`"),
        ("const handleSummary = (data) => ({});", "`handleSummary` is not exported"),
    ] {
        let said = said(&format!("{text}\n{main}"));
        assert!(said.contains(expected), "{text}: {said:?}");
    }
    for text in [
        "export const options = { vus: 3 };",
        "const options = { vus: 3 }; export { options };",
        "const options = { headers: {} }; export const f = () => http.get('x', options);",
        "function setup() {} export const s = () => setup();",
    ] {
        assert_eq!(said(&format!("{text}\n{main}")), "", "{text}");
    }
}

#[test]
fn what_setup_leaves_in_variables_is_lost_and_that_is_said() {
    for text in [
        "let token; export function setup() { token = 'a'; } export default function () { f(token); }",
        "const all = []; export const setup = () => { all.push(1); }; export default () => f(all[0]);",
        "let t; export function setup() { t = 1; } export function other() { f(t); } export default () => {};",
    ] {
        let said = said(text);
        assert!(said.contains("is set in setup() alone"), "{text}: {said:?}");
    }
    for text in [
        "let t = 0; export function setup() { t = 1; } export default function () { t = 2; f(t); }",
        "let t; export function setup() { t = 1; help(); } function help() { f(t); } export default () => {};",
        "export function setup() { let t = 1; return { t }; } export default function (d) { f(d.t); }",
        "let t; if (!t) { t = 1; } export function setup() { f(t); } export default () => f(t);",
    ] {
        assert_eq!(said(text), "", "{text}");
    }
}

#[test]
fn what_virtual_users_leave_in_variables_is_not_seen_at_the_end_and_that_is_said() {
    for text in [
        "const bad = []; export default () => { bad.push(1); }; \
         export function handleSummary(d) { return { stdout: '' + bad.length }; }",
        "let n = 0; export default function () { n++; } export function teardown() { f(n); }",
    ] {
        let said = said(text);
        assert!(said.contains("is changed by virtual users and read in"), "{text}: {said:?}");
    }
    for text in [
        "const bad = []; export default () => { bad.push(1); f(bad); };",
        "const all = []; all.push(1); export default () => { all.push(2); }; export const teardown = () => f(all);",
        "const out = {}; export default () => {}; export function handleSummary(d) { out.a = 1; return out; }",
        "const c = new Counter('c'); export default () => { c.add(1); }; \
         export function handleSummary(d) { return { stdout: c.name }; }",
    ] {
        assert_eq!(said(text), "", "{text}");
    }
}

#[test]
fn data_without_a_setup_and_maps_in_what_it_returns_are_said() {
    let text = "export default function (data) { f(data.token); }";
    assert!(said(text).contains("there is no setup()"), "{}", said(text));
    let text = "export function setup() { return { m: new Map() }; } export default function (d) { f(d.m); }";
    assert!(said(text).contains("a Map becomes {}"), "{}", said(text));
    assert_eq!(said("export default function (data) { f(data); }"), "");
    assert_eq!(said("export default function (data) { f(data?.token); }"), "");
}

/// What k6's own scripts do is meant, but for those that show mistakes.
#[test]
fn no_script_of_the_examples_and_of_the_conformance_suite_is_warned_about_by_mistake() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    for folder in ["examples", "conformance/scripts"] {
        let Ok(entries) = std::fs::read_dir(root.join(folder)) else { continue };
        for path in entries.flatten().map(|entry| entry.path()) {
            let language = match path.extension().and_then(|ending| ending.to_str()) {
                Some("js") => Language::JavaScript,
                Some("ts") => Language::TypeScript,
                _ => continue,
            };
            let text = std::fs::read_to_string(&path).unwrap();
            let Ok(parsed) = parse("a", &text, language) else { continue };
            let hints = parsed.hints;
            let all = hints.of_entry.into_iter().chain(hints.warnings);
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            found.extend(all.map(|(_, text)| format!("{name}: {text}")));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}
