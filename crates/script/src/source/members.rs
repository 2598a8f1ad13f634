//! Members that responses and `k6/execution` do not have, and values that theirs can never be: read
//! without a word by JavaScript, which has `undefined` for them. (Members of the response itself
//! are seen when they are read, wherever that is: `modules::http::hints`.)

use std::collections::HashSet;

use oxc_ast::ast::{
    Argument, ArrayExpressionElement, BinaryExpression, CallExpression, ComputedMemberExpression,
    Expression, ExpressionStatement, ImportDeclarationSpecifier, LogicalExpression, Program,
    Statement, StaticMemberExpression,
};
use oxc_ast_visit::{Visit, walk};
use oxc_semantic::Scoping;
use oxc_span::GetSpan;
use oxc_syntax::operator::{BinaryOperator, LogicalOperator};
use oxc_syntax::symbol::SymbolId;

use super::lacking::Known;
use crate::modules::http::canonical;
use crate::options::nearest;

const TIMINGS: &[&str] = &[
    "duration",
    "blocked",
    "looking_up",
    "connecting",
    "tls_handshaking",
    "sending",
    "waiting",
    "receiving",
];
/// What others call them.
const TIMINGS_ELSEWHERE: &[(&str, &str)] = &[
    ("ttfb", "waiting"),
    ("firstByte", "waiting"),
    ("wait", "waiting"),
    ("total", "duration"),
    ("elapsed", "duration"),
    ("time", "duration"),
    ("connect", "connecting"),
    ("dns", "looking_up"),
    ("lookup", "looking_up"),
    ("tls", "tls_handshaking"),
    ("ssl", "tls_handshaking"),
    ("send", "sending"),
    ("download", "receiving"),
    ("receive", "receiving"),
];

/// The parts of `k6/execution`.
const EXECUTION: &[(&str, &[&str])] = &[
    (
        "vu",
        &[
            "idInTest",
            "idInInstance",
            "iterationInScenario",
            "iterationInInstance",
            "tags",
            "metrics",
        ],
    ),
    (
        "scenario",
        &["name", "executor", "startTime", "progress", "iterationInInstance", "iterationInTest"],
    ),
    (
        "instance",
        &[
            "currentTestRunDuration",
            "iterationsCompleted",
            "iterationsInterrupted",
            "vusActive",
            "vusInitialized",
        ],
    ),
    ("test", &["abort", "fail", "options"]),
];

/// What texts and buffers have.
pub const OF_BODIES: &[&str] = &[
    "at",
    "byteLength",
    "charAt",
    "charCodeAt",
    "codePointAt",
    "concat",
    "constructor",
    "endsWith",
    "hasOwnProperty",
    "includes",
    "indexOf",
    "isWellFormed",
    "lastIndexOf",
    "length",
    "localeCompare",
    "match",
    "matchAll",
    "normalize",
    "padEnd",
    "padStart",
    "repeat",
    "replace",
    "replaceAll",
    "resize",
    "search",
    "slice",
    "split",
    "startsWith",
    "substr",
    "substring",
    "toJSON",
    "toLocaleLowerCase",
    "toLocaleUpperCase",
    "toLowerCase",
    "toString",
    "toUpperCase",
    "toWellFormed",
    "trim",
    "trimEnd",
    "trimStart",
    "valueOf",
];

const METHODS: &[&str] = &["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];

pub fn look(program: &Program<'_>, scoping: &Scoping) -> Vec<(u32, String)> {
    let known = Known::of(program, scoping);
    let mut look = Look {
        known: &known,
        execution: Vec::new(),
        imports: HashSet::new(),
        headers: HashSet::new(),
        lower: Vec::new(),
        called: HashSet::new(),
        warnings: Vec::new(),
    };
    program.body.iter().for_each(|statement| look.import(statement));
    look.visit_program(program);
    // `headers['Content-Type'] || headers['content-type']` is ready for both.
    let Look { headers, lower, mut warnings, .. } = look;
    for (offset, name) in lower {
        let right = canonical(&name);
        if !headers.contains(&right) {
            warnings.push((
                offset,
                format!(
                    "a response never has the header `{name}`: the names of its headers are written `{right}`; \
                     write headers['{right}']"
                ),
            ));
        }
    }
    warnings
}

struct Look<'k, 's> {
    known: &'k Known<'s>,
    /// Names for `k6/execution`, or for a part of it.
    execution: Vec<(SymbolId, Option<String>)>,
    /// Everything that comes from k6.
    imports: HashSet<SymbolId>,
    /// Headers that are read by their right names.
    headers: HashSet<String>,
    lower: Vec<(u32, String)>,
    /// Members that are called, by their offsets.
    called: HashSet<u32>,
    warnings: Vec<(u32, String)>,
}

impl Look<'_, '_> {
    fn import(&mut self, statement: &Statement<'_>) {
        let Statement::ImportDeclaration(import) = statement else { return };
        let source = import.source.value.as_str();
        if source != "k6" && !source.starts_with("k6/") {
            return;
        }
        for specifier in import.specifiers.iter().flatten() {
            let symbol = specifier.local().symbol_id();
            self.imports.insert(symbol);
            let part = match specifier {
                ImportDeclarationSpecifier::ImportSpecifier(one) => {
                    Some(one.imported.name().to_string()).filter(|name| name != "default")
                }
                _ => None,
            };
            if source == "k6/execution" {
                self.execution.push((symbol, part));
            }
        }
    }

    /// `vu` of `exec.vu`, or of `import { vu }`; an empty text for `exec` itself.
    fn part_of_execution<'t>(&'t self, expression: &'t Expression<'_>) -> Option<&'t str> {
        if let Some(symbol) = self.known.symbol(expression) {
            let (_, part) = self.execution.iter().find(|(known, _)| *known == symbol)?;
            return Some(part.as_deref().unwrap_or(""));
        }
        let Expression::StaticMemberExpression(member) = expression.get_inner_expression() else {
            return None;
        };
        let whole = self.part_of_execution(&member.object)?;
        whole.is_empty().then(|| member.property.name.as_str())
    }

    /// The `name` of `response.name`.
    fn of_response<'t>(&self, expression: &'t Expression<'_>) -> Option<&'t str> {
        match expression.get_inner_expression() {
            Expression::StaticMemberExpression(member)
                if self.known.is_response(&member.object) =>
            {
                Some(member.property.name.as_str())
            }
            _ => None,
        }
    }

    fn warn(&mut self, offset: u32, text: String) {
        self.warnings.push((offset, text));
    }

    fn member_of_execution(&mut self, offset: u32, part: &str, name: &str) {
        let parts: Vec<&str> = EXECUTION.iter().map(|(part, _)| *part).collect();
        let (of, known) = match EXECUTION.iter().find(|(known, _)| *known == part) {
            Some((of, known)) => (format!("exec.{of}"), *known),
            None if part.is_empty() => ("k6/execution".to_owned(), &parts[..]),
            None => return,
        };
        if known.contains(&name) || ["default", "constructor", "toString"].contains(&name) {
            return;
        }
        let advice = match nearest(name, known) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("there are {}", known.join(", ")),
        };
        self.warn(offset, format!("`{of}` has no `{name}`, so it is undefined; {advice}"));
    }

    fn header(&mut self, offset: u32, name: &str) {
        match canonical(name) == name {
            true => {
                self.headers.insert(name.to_owned());
            }
            false => self.lower.push((offset, name.to_owned())),
        }
    }

    /// What stands behind `response.of.`
    fn inner(&mut self, member: &StaticMemberExpression<'_>, of: &str) {
        let name = member.property.name.as_str();
        let offset = member.property.span.start;
        let is_called = self.called.contains(&member.span.start)
            && self.called.contains(&(member.span.end | CALLED_END));
        match of {
            "timings" if !TIMINGS.contains(&name) => {
                let known = TIMINGS_ELSEWHERE.iter().find(|(word, _)| *word == name);
                let meant = known.map(|(_, meant)| *meant).or_else(|| nearest(name, TIMINGS));
                let advice = match meant {
                    Some(meant) => format!("it is `timings.{meant}` here"),
                    None => format!("there are {}", TIMINGS.join(", ")),
                };
                let text = format!(
                    "`timings` of a response has no `{name}`, so it is undefined; {advice}"
                );
                self.warn(offset, text);
            }
            "headers" if is_called => {
                let text = format!(
                    "`headers` of a response has no function `{name}()`; a header is read as \
                     headers['Content-Type']"
                );
                if name == "get" || name == "has" {
                    self.warn(offset, text);
                }
            }
            "headers" if !OBJECT.contains(&name) => self.header(offset, name),
            "json" if !["call", "apply", "bind", "name", "length"].contains(&name) => {
                let text =
                    format!("`json` is a function: write .json('{name}'), or .json().{name}");
                self.warn(offset, text);
            }
            "body" if !OF_BODIES.contains(&name) => {
                let advice = match nearest(name, OF_BODIES).filter(|_| is_called) {
                    Some(meant) => format!("did you mean `{meant}`?"),
                    None => format!("a member of a JSON answer is .json('{name}')"),
                };
                self.warn(
                    offset,
                    format!("`body` of a response is text and has no `{name}`; {advice}"),
                );
            }
            _ => {}
        }
    }

    fn compare(&mut self, compared: &BinaryExpression<'_>) {
        let is_strict = matches!(
            compared.operator,
            BinaryOperator::StrictEquality | BinaryOperator::StrictInequality
        );
        if !is_strict {
            return;
        }
        for (one, other) in [(&compared.left, &compared.right), (&compared.right, &compared.left)] {
            let Some(name @ ("status" | "error_code")) = self.of_response(one) else { continue };
            let Expression::StringLiteral(text) = other.get_inner_expression() else { continue };
            let sign = compared.operator.as_str();
            let value = text.value.as_str();
            let result = if sign == "===" { "never" } else { "always" };
            let advice = match value.parse::<u16>() {
                Ok(number) => format!("write `{sign} {number}`"),
                Err(_) => "compare it with a number".to_owned(),
            };
            let said = format!(
                "`{name}` is a number and '{value}' a text, so that this is {result} true; {advice}"
            );
            self.warn(other.span().start, said);
        }
    }

    /// `status === 200 || 201`
    fn either(&mut self, logical: &LogicalExpression<'_>) {
        let Expression::NumericLiteral(number) = logical.right.get_inner_expression() else {
            return;
        };
        let compared = |expression: &Expression<'_>| match expression.get_inner_expression() {
            Expression::BinaryExpression(compared) => {
                compared.operator.is_equality()
                    && (self.of_response(&compared.left) == Some("status")
                        || self.of_response(&compared.right) == Some("status"))
            }
            _ => false,
        };
        let left = match logical.left.get_inner_expression() {
            Expression::LogicalExpression(inner) => compared(&inner.left) || compared(&inner.right),
            _ => compared(&logical.left),
        };
        if left && logical.operator == LogicalOperator::Or && number.value != 0.0 {
            let value = number.value;
            let text = format!(
                "`|| {value}` is always true; compare once more: `|| response.status === {value}`"
            );
            self.warn(number.span.start, text);
        }
    }

    fn call(&mut self, call: &CallExpression<'_>) {
        let text = |argument: Option<&Argument<'_>>| match argument {
            Some(Argument::StringLiteral(text)) => Some(text.value.to_string()),
            _ => None,
        };
        let at = call.span.start;
        match self.known.function_of_http(&call.callee) {
            Some(name @ ("request" | "asyncRequest")) => {
                let first = text(call.arguments.first());
                let second = text(call.arguments.get(1));
                let is_method = |text: &String| METHODS.contains(&text.to_uppercase().as_str());
                if second.is_some_and(|second| is_method(&second))
                    || first.is_some_and(|first| first.contains("://"))
                {
                    let said = format!(
                        "http.{name}() takes the method first: http.{name}('GET', url, body, params)"
                    );
                    self.warn(at, said);
                }
            }
            Some("batch") => {
                let Some(Argument::ArrayExpression(list)) = call.arguments.first() else { return };
                let is_method = |element: &ArrayExpressionElement<'_>| match element {
                    ArrayExpressionElement::StringLiteral(text) => {
                        METHODS.contains(&text.value.to_uppercase().as_str())
                    }
                    _ => false,
                };
                if list.elements.iter().any(is_method) {
                    let said = "http.batch() takes a list of requests, and each of them is a URL or a list: \
                                http.batch([['GET', url], ['GET', url2]])";
                    self.warn(at, said.to_owned());
                }
            }
            _ => {}
        }
        if call.callee.is_specific_member_access("JSON", "parse")
            && let Some(Argument::CallExpression(inner)) = call.arguments.first()
            && inner.callee.is_specific_id("open")
            && let Some(path) = text(inner.arguments.first())
            && let Some((_, ending)) = path.rsplit_once('.')
        {
            let advice = match ending.to_ascii_lowercase().as_str() {
                "csv" | "tsv" => {
                    "CSV is read by papaparse: import papaparse from \
                     'https://jslib.k6.io/papaparse/5.1.1/index.js'; \
                     papaparse.parse(open(path), { header: true }).data"
                }
                "yaml" | "yml" | "toml" | "xml" => {
                    "turn it into JSON first; scripts read JSON and CSV"
                }
                _ => return,
            };
            self.warn(at, format!("`{path}` is no JSON by its name; {advice}"));
        }
    }

    /// Whether a chain of names begins with something of k6.
    fn begins_with_import(&self, expression: &Expression<'_>) -> bool {
        match expression.get_inner_expression() {
            Expression::StaticMemberExpression(member) => self.begins_with_import(&member.object),
            other => self.known.symbol(other).is_some_and(|symbol| self.imports.contains(&symbol)),
        }
    }
}

/// The ends of members that are called are kept beside their starts.
const CALLED_END: u32 = 1 << 31;

const OBJECT: &[&str] =
    &["hasOwnProperty", "toString", "constructor", "propertyIsEnumerable", "valueOf"];

/// `exec.test.abort` as it is written.
fn written(expression: &Expression<'_>) -> String {
    match expression.get_inner_expression() {
        Expression::Identifier(id) => id.name.to_string(),
        Expression::StaticMemberExpression(member) => {
            format!("{}.{}", written(&member.object), member.property.name)
        }
        _ => "…".to_owned(),
    }
}

impl<'a> Visit<'a> for Look<'_, '_> {
    fn visit_call_expression(&mut self, call: &CallExpression<'a>) {
        let callee = call.callee.get_inner_expression().span();
        self.called.extend([callee.start, callee.end | CALLED_END]);
        self.call(call);
        walk::walk_call_expression(self, call);
    }

    fn visit_static_member_expression(&mut self, member: &StaticMemberExpression<'a>) {
        let name = member.property.name.as_str();
        if !member.optional {
            if let Some(part) = self.part_of_execution(&member.object).map(str::to_owned) {
                self.member_of_execution(member.property.span.start, &part, name);
            } else if let Some(of) = self.of_response(&member.object) {
                self.inner(member, of);
            }
        }
        walk::walk_static_member_expression(self, member);
    }

    fn visit_computed_member_expression(&mut self, member: &ComputedMemberExpression<'a>) {
        if let Expression::StringLiteral(name) = member.expression.get_inner_expression()
            && self.of_response(&member.object) == Some("headers")
        {
            self.header(name.span.start, name.value.as_str());
        }
        walk::walk_computed_member_expression(self, member);
    }

    fn visit_binary_expression(&mut self, compared: &BinaryExpression<'a>) {
        self.compare(compared);
        walk::walk_binary_expression(self, compared);
    }

    fn visit_logical_expression(&mut self, logical: &LogicalExpression<'a>) {
        self.either(logical);
        walk::walk_logical_expression(self, logical);
    }

    fn visit_expression_statement(&mut self, statement: &ExpressionStatement<'a>) {
        if self.begins_with_import(&statement.expression) {
            let name = written(&statement.expression);
            let text = format!("`{name}` alone does nothing; with brackets it is called: {name}()");
            self.warn(statement.span.start, text);
        }
        walk::walk_expression_statement(self, statement);
    }
}

#[cfg(test)]
mod tests {
    use crate::source::parse::{Language, parse};

    const HEAD: &str = "import http from 'k6/http'; import { check, sleep } from 'k6';\n\
                        import exec from 'k6/execution';\n";

    fn said(text: &str) -> String {
        let text = format!("{HEAD}{text}");
        let hints = parse("a", &text, Language::JavaScript).unwrap().hints;
        let all = hints.of_entry.into_iter().chain(hints.warnings).map(|(_, text)| text);
        all.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn what_a_response_or_an_execution_never_has_is_said_with_the_right_name() {
        for (text, expected) in [
            ("const r = http.get('x'); r.timings.ttfb;", "it is `timings.waiting` here"),
            ("const r = http.get('x'); r.timings.durations;", "it is `timings.duration` here"),
            (
                "check(http.get('x'), { a: (r) => r.headers['content-type'] === 'a' });",
                "write headers['Content-Type']",
            ),
            ("const r = http.get('x'); f(r.headers.location);", "write headers['Location']"),
            ("const r = http.get('x'); f(r.headers.get('x'));", "has no function `get()`"),
            ("check(http.get('x'), { a: (r) => r.status === '200' });", "write `=== 200`"),
            ("check(http.get('x'), { a: (r) => '200' !== r.status });", "always true"),
            (
                "check(http.get('x'), { a: (r) => r.status === 200 || 201 });",
                "`|| 201` is always true",
            ),
            ("const r = http.get('x'); f(r.json.token);", ".json('token')"),
            ("const r = http.get('x'); f(r.body.token);", ".json('token')"),
            ("const rs = http.batch(['a', 'b']); f(rs[0].timings.ttfb);", "timings.waiting"),
            ("f(exec.vu.idInTests);", "did you mean `idInTest`?"),
            ("f(exec.scenarios.name);", "did you mean `scenario`?"),
            ("f(exec.instance.users);", "there are currentTestRunDuration"),
            ("if (x) exec.test.abort;", "exec.test.abort()"),
            ("sleep;", "sleep()"),
            ("http.batch(['GET', 'http://a/']);", "[['GET', url]"),
            ("http.request('http://a/', 'GET');", "takes the method first"),
            ("const a = JSON.parse(open('users.csv'));", "papaparse"),
            (
                "const p = { headers: { A: 'b' } }; http.del('http://a/', p);",
                "http.del(url, body, params)",
            ),
        ] {
            let said = said(text);
            assert!(said.contains(expected), "{text}: {said:?}");
        }
    }

    #[test]
    fn what_is_right_or_not_certain_is_left_alone() {
        for text in [
            "const r = http.get('x'); f(r.timings.waiting, r.headers['Content-Type'], r.headers.Etag);",
            "const r = http.get('x'); f(r.headers['Content-Type'] || r.headers['content-type']);",
            "const r = http.get('x'); f(r.status == '200', r.status === 200, r.status === 200 || b);",
            "const r = http.get('x'); f(r.body.length, r.body.includes('a'), r.json().token);",
            "const r = { headers: {} }; f(r.headers['content-type'], r.timings, r.status === '200');",
            "let r = http.get('x'); r = other(); f(r.status === '200');",
            "f(exec.vu.idInTest, exec.vu.tags['a'], exec.vu.metrics.tags, exec.test.options.vus);",
            "exec.test.abort(); http.batch(['http://a/', ['GET', 'http://b/']]);",
            "http.request('GET', 'http://a/'); http.del('http://a/', null, { headers: { a: 'b' } });",
            "const a = JSON.parse(open('users.json')); const b = JSON.parse(open(path));",
            "const body = { a: 1 }; http.post('http://a/', body);",
        ] {
            assert_eq!(said(text), "", "{text}");
        }
    }
}
