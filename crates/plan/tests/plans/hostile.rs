//! Input that is not meant well, or not meant at all: problems, never a crash, never a hang.

use plan::{Format, Problems};
use proptest::prelude::*;

use super::{examples, try_read};

const FORMATS: [Format; 3] = [Format::Yaml, Format::Toml, Format::Json];

fn check(text: &str, format: Format, expect: &str) {
    let Err(Problems(problems)) = try_read(text, format) else { panic!("no problem") };
    assert!(problems.iter().any(|one| one.message.contains(expect)), "{}", problems[0].message);
}

#[test]
fn deep_nesting_is_refused() {
    let deep = 100_000;
    check(&("a: ".to_owned() + &"[".repeat(deep)), Format::Yaml, "recursion limit");
    check(&("a: ".to_owned() + &"[".repeat(80)), Format::Yaml, "nested more than");
    check(&"{\"a\":".repeat(deep), Format::Json, "larger than");
    check(&format!("a = {}", "[".repeat(deep)), Format::Toml, "nesting depth");
    check(&format!("{}a = 1", "a.".repeat(deep)), Format::Toml, "nesting depth");
    let indented: String = (0..200).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
    check(&indented, Format::Yaml, "nested more than");
}

#[test]
fn aliases_cannot_multiply_without_end() {
    let mut bomb = String::from("x-0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n");
    for level in 1..12 {
        let aliases = vec![format!("*a{}", level - 1); 9].join(", ");
        bomb += &format!("x-{level}: &a{level} [{aliases}]\n");
    }
    check(&bomb, Format::Yaml, "after expanding aliases");
}

#[test]
fn an_alias_cannot_nest_without_end() {
    let mut chain = String::from("x-0: &a0 [1]\n");
    for level in 1..200 {
        chain += &format!("x-{level}: &a{level} [*a{}]\n", level - 1);
    }
    check(&chain, Format::Yaml, "nested more than");
}

#[test]
fn many_keys_steps_and_problems_take_no_time() {
    let keys: String = (0..50_000).map(|n| format!("k{n}: 1\n")).collect();
    check(&keys, Format::Yaml, "unknown key");
    let steps: String = (0..50_000).map(|_| "  - think: 1s\n").collect();
    check(&format!("workflows:\n- name: a\n  steps:\n{steps}"), Format::Yaml, "50000 steps");
    let items = "1,".repeat(600_000);
    check(&format!("{{\"a\": [{items}1]}}"), Format::Json, "larger than");
}

#[test]
fn paths_and_patterns_cannot_exhaust_the_stack() {
    for extract in [
        format!("$[?{}@.a{}]", "(".repeat(5_000), ")".repeat(5_000)),
        format!("$[?{}@.a]", "!".repeat(5_000)),
        "$".to_owned() + &"[?@".repeat(3_000),
    ] {
        let yaml = super::with_steps(&format!("- get: /\n  extract: {{ a: '{extract}' }}"));
        check(&yaml, Format::Yaml, "JSONPath");
    }
    let pattern = "(".repeat(10_000);
    let yaml =
        super::with_steps(&format!("- get: /\n  extract: {{ a: {{ regex: '{pattern}' }} }}"));
    check(&yaml, Format::Yaml, "not a regular expression");
}

#[test]
fn a_long_text_of_braces_and_dollars_is_read_in_one_pass() {
    for part in ["{{", "{", "$a ", "$a: ", "#{", "${vu.id}", "{{{{"] {
        let body = part.repeat((1 << 19) / part.len());
        for step in [format!("- {{ post: /, body: '{body}' }}"), format!("- get: '/{body}'")] {
            // What is compared with everything else takes minutes.
            let _ = super::try_read(&super::with_steps(&step), plan::Format::Yaml);
        }
    }
}

#[test]
fn many_problems_are_counted_and_not_all_shown() {
    let keys: String = (0..200).map(|n| format!("k{n}: 1\n")).collect();
    let printed = try_read(&keys, Format::Yaml).unwrap_err().to_string();
    assert!(printed.contains("... and 151 more"), "{printed}");
    assert!(printed.ends_with("201 problems in plan"));
}

/// Reads and prints, which must not panic; places must lie in the text.
fn survives(text: &str) {
    for format in FORMATS {
        if let Err(problems) = try_read(text, format) {
            let lines = u32::try_from(text.split('\n').count()).unwrap();
            assert!(problems.0.iter().all(|problem| problem.line <= lines));
            assert!(!problems.to_string().is_empty());
        }
    }
}

fn example(name: &str) -> String {
    std::fs::read_to_string(examples().join(name)).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,300}") {
        survives(&text);
    }

    #[test]
    fn any_text_of_our_alphabet_is_read_or_refused(
        text in "[a-c${}\\[\\]:,|<>=&*!'\"\\\\ \\n\\-.()0-9#%]{0,200}",
    ) {
        survives(&text);
        let _ = plan::template::Template::parse(&text, plan::template::Escape::UrlPath);
        let _ = plan::expr::Condition::parse(&text);
    }

    #[test]
    fn a_damaged_example_is_read_or_refused(
        which in 0usize..4,
        cuts in prop::collection::vec((any::<prop::sample::Index>(), 0usize..12, ".{0,4}"), 1..6),
    ) {
        let name = ["checkout.yaml", "quickstart.yaml", "quickstart.toml", "api.json"][which];
        let mut chars: Vec<char> = example(name).chars().collect();
        for (at, length, insert) in cuts {
            let start = at.index(chars.len());
            let end = (start + length).min(chars.len());
            chars.splice(start..end, insert.chars());
            if chars.is_empty() {
                chars.push(' ');
            }
        }
        survives(&chars.into_iter().collect::<String>());
    }

    #[test]
    fn any_quantity_is_read_or_refused(text in "[0-9a-zµ./%<>=() -]{0,20}") {
        let yaml = format!(
            "workflows:\n- name: a\n  \
             load: {{ rate: '{text}', duration: '{text}', pacing: '{text}' }}\n  \
             steps: [ {{ think: '{text}' }}, {{ get: 'http://a', check: [ {{ status: '{text}' }}, \
             {{ latency: '{text}' }}, {{ body: {{ size: '{text}' }} }} ] }} ]\nthresholds:\n\
             - {{ metric: checks, hold: '{text}' }}\n- {{ metric: latency, hold: '{text}' }}"
        );
        survives(&yaml);
    }
}
