use super::*;
use crate::template::{Part, Source};

fn show_template(template: &Template) -> String {
    let part = |part: &Part| match part {
        Part::Text(text) => text.clone(),
        Part::Reference(reference) => match &reference.source {
            Source::Variable(name) => format!("${name}"),
            other => format!("${other:?}"),
        },
    };
    template.parts.iter().map(part).collect()
}

fn show(condition: &Condition) -> String {
    let join = |parts: &[Condition], word: &str| {
        format!("({})", parts.iter().map(show).collect::<Vec<_>>().join(word))
    };
    match condition {
        Condition::All(parts) => join(parts, " and "),
        Condition::Any(parts) => join(parts, " or "),
        Condition::Not(inner) => format!("not {}", show(inner)),
        Condition::Compare { left, op, right } => {
            format!("{} {} {}", show_template(left), op.symbol(), show_template(right))
        }
        Condition::Contains { left, right } => {
            format!("{} contains {}", show_template(left), show_template(right))
        }
        Condition::Matches { left, pattern } => {
            format!("{} matches {pattern}", show_template(left))
        }
        Condition::Truthy(only) => show_template(only),
    }
}

fn check(input: &str, expect: &str) {
    let shown = match Condition::parse(input) {
        Ok(condition) => show(&condition),
        Err(wrong) => format!("error at {}: {}", wrong.start, wrong.message),
    };
    assert_eq!(shown, expect, "{input:?}");
}

#[test]
fn conditions_have_the_usual_precedence() {
    for (input, expect) in [
        ("${a}", "$a"),
        ("${a} == 'x'", "$a == x"),
        ("${a}=='x y'", "$a == x y"),
        ("${a} != \"x\"", "$a != x"),
        ("${n} >= 3", "$n >= 3"),
        ("${n} < -1.5", "$n < -1.5"),
        ("${a} contains 'x' and ${b}", "($a contains x and $b)"),
        ("${a} or ${b} and ${c}", "($a or ($b and $c))"),
        ("(${a} or ${b}) and ${c}", "(($a or $b) and $c)"),
        ("not ${a} and ${b}", "(not $a and $b)"),
        ("not (${a} and ${b})", "not ($a and $b)"),
        ("!${a} || ${b} && ${c}", "(not $a or ($b and $c))"),
        ("${a} matches '^x[0-9]+$'", "$a matches ^x[0-9]+$"),
        ("'${a}-${b}' == 'x-y'", "$a-$b == x-y"),
        ("${a:-some text} == 'x'", "$a == x"),
    ] {
        check(input, expect);
    }
}

#[test]
fn errors_say_where_the_condition_breaks() {
    for (input, expect) in [
        ("", "error at 0: expected a reference, a number or a text in quotes, found the end"),
        (
            "${a} ==",
            "error at 7: expected a reference, a number or a text in quotes, found the end",
        ),
        ("${a} ${b}", "error at 5: expected `and`, `or` or the end, found `${b}`"),
        ("(${a}", "error at 5: expected `)`, found the end"),
        ("${a} == 'x", "error at 8: this text has no end"),
        ("${a} <> 3", "error at 5: unknown operator `<>`"),
        ("${a} & ${b}", "error at 5: `&` is unexpected"),
        ("${ä.x} == 1", "error at 0: unknown reference `ä.x`"),
        ("${a} matches '${b}'", "error at 13: a pattern is fixed: references cannot stand in it"),
    ] {
        check(input, expect);
    }
    assert!(Condition::parse("${a} matches '('").unwrap_err().message.starts_with("not a regular"));
}

#[test]
fn deep_nesting_is_an_error_and_not_a_crash() {
    for deep in ["not ".repeat(10_000) + "${a}", "(".repeat(10_000)] {
        assert!(Condition::parse(&deep).is_err());
    }
}
