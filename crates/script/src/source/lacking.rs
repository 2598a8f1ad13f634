//! Calls of what is not there, where the text of a file shows them: `http.get(url).html()`, a
//! variable that holds nothing but responses, the parameter of a function in
//! `check(response, {…})`, and `crypto.subtle.digest(…)`.
//!
//! Only what is certain is found, because a script that k6 runs must not be refused for a method of
//! its own that has the same name. `page.html?.()` asks first, and is left alone.

use std::collections::{HashMap, HashSet};

use oxc_ast::ast::{
    Argument, AssignmentExpression, AssignmentOperator, AssignmentTarget, CallExpression,
    Expression, FormalParameters, ImportDeclarationSpecifier, ObjectPropertyKind, Program,
    Statement, VariableDeclarator,
};
use oxc_ast_visit::{Visit, walk};
use oxc_semantic::Scoping;
use oxc_syntax::symbol::SymbolId;

use crate::lacking::Lacking;

/// Functions of `k6/http` that give a response.
const REQUESTS: &[&str] = &["del", "get", "head", "options", "patch", "post", "put", "request"];

/// The first call of something that is not there, and its place.
pub fn find(program: &Program<'_>, scoping: &Scoping) -> Option<(u32, Lacking)> {
    let known = Known::of(program, scoping);
    let mut calls = Calls { known: &known, found: Vec::new() };
    calls.visit_program(program);
    calls.found.into_iter().min_by_key(|(offset, _)| *offset)
}

/// What is known of the variables of a file.
pub struct Known<'s> {
    scoping: &'s Scoping,
    /// Names for the module `k6/http`.
    modules: HashSet<SymbolId>,
    /// Names for single functions of it that give a response, and whether they give it later.
    functions: HashMap<SymbolId, bool>,
    /// Names for `check` of `k6`.
    checks: HashSet<SymbolId>,
    /// How often a response, and nothing else, was seen to be written to a variable.
    written: HashMap<SymbolId, Writes>,
    /// Variables that never hold anything else.
    responses: HashSet<SymbolId>,
    /// Variables that hold what `http.batch()` gave, and nothing else.
    batches: HashSet<SymbolId>,
}

#[derive(Default)]
struct Writes {
    of_responses: usize,
    /// The declaration gives it a value of another kind, or takes it out of something.
    of_others: bool,
    /// One of them stands in the declaration, which is no reference.
    declared: bool,
}

impl<'s> Known<'s> {
    fn new(scoping: &'s Scoping) -> Known<'s> {
        Known {
            scoping,
            modules: HashSet::new(),
            functions: HashMap::new(),
            checks: HashSet::new(),
            written: HashMap::new(),
            responses: HashSet::new(),
            batches: HashSet::new(),
        }
    }

    /// What the text of a file shows.
    pub fn of(program: &Program<'_>, scoping: &'s Scoping) -> Known<'s> {
        let mut known = Known::new(scoping);
        for statement in &program.body {
            known.import(statement);
        }
        // What holds a response may be handed on to what holds it next.
        loop {
            let before = known.responses.len() + known.batches.len();
            known.written.clear();
            known.visit_program(program);
            known.judge();
            if known.responses.len() + known.batches.len() == before {
                break;
            }
        }
        known
    }

    fn import(&mut self, statement: &Statement<'_>) {
        let Statement::ImportDeclaration(import) = statement else { return };
        let source = import.source.value.as_str();
        for specifier in import.specifiers.iter().flatten() {
            let symbol = specifier.local().symbol_id();
            match specifier {
                ImportDeclarationSpecifier::ImportSpecifier(one) => {
                    let name = one.imported.name();
                    match (source, name.as_str()) {
                        ("k6", "check") => {
                            self.checks.insert(symbol);
                        }
                        ("k6/http", "default") => {
                            self.modules.insert(symbol);
                        }
                        ("k6/http", name) if REQUESTS.contains(&name) => {
                            self.functions.insert(symbol, false);
                        }
                        ("k6/http", "asyncRequest") => {
                            self.functions.insert(symbol, true);
                        }
                        _ => {}
                    }
                }
                _ if source == "k6/http" => {
                    self.modules.insert(symbol);
                }
                _ => {}
            }
        }
    }

    /// Whether `check` of `k6` is called.
    pub fn is_check(&self, callee: &Expression<'_>) -> bool {
        self.symbol(callee).is_some_and(|symbol| self.checks.contains(&symbol))
    }

    pub fn symbol(&self, expression: &Expression<'_>) -> Option<SymbolId> {
        let Expression::Identifier(id) = expression.get_inner_expression() else { return None };
        self.scoping.get_reference(id.reference_id.get()?).symbol_id()
    }

    /// Whether what is called gives a response; `Some(true)`: as a promise.
    fn is_request(&self, callee: &Expression<'_>) -> Option<bool> {
        if let Some(symbol) = self.symbol(callee) {
            return self.functions.get(&symbol).copied();
        }
        let Expression::StaticMemberExpression(member) = callee.get_inner_expression() else {
            return None;
        };
        let module = self.symbol(&member.object)?;
        let name = member.property.name.as_str();
        match self.modules.contains(&module) {
            true if REQUESTS.contains(&name) => Some(false),
            true if name == "asyncRequest" => Some(true),
            _ => None,
        }
    }

    /// `batch` of `http.batch`, if that is the module's.
    pub fn function_of_http<'t>(&self, callee: &'t Expression<'_>) -> Option<&'t str> {
        let Expression::StaticMemberExpression(member) = callee.get_inner_expression() else {
            return None;
        };
        let module = self.symbol(&member.object)?;
        self.modules.contains(&module).then(|| member.property.name.as_str())
    }

    fn is_batch(&self, expression: &Expression<'_>) -> bool {
        match expression.get_inner_expression() {
            Expression::CallExpression(call) => {
                self.function_of_http(&call.callee) == Some("batch")
            }
            other => self.symbol(other).is_some_and(|symbol| self.batches.contains(&symbol)),
        }
    }

    pub fn is_response(&self, expression: &Expression<'_>) -> bool {
        match expression.get_inner_expression() {
            Expression::ComputedMemberExpression(member) => self.is_batch(&member.object),
            Expression::CallExpression(call) => self.is_request(&call.callee) == Some(false),
            Expression::AwaitExpression(wait) => match wait.argument.get_inner_expression() {
                Expression::CallExpression(call) => self.is_request(&call.callee).is_some(),
                other => self.is_response(other),
            },
            Expression::AssignmentExpression(assignment) => self.is_response(&assignment.right),
            other => self.symbol(other).is_some_and(|symbol| self.responses.contains(&symbol)),
        }
    }

    /// A variable to which every write that there is writes a response.
    fn judge(&mut self) {
        for (symbol, writes) in &self.written {
            let references = self.scoping.get_resolved_references(*symbol);
            let all = references.filter(|reference| reference.is_write()).count();
            let seen = writes.of_responses - usize::from(writes.declared);
            if writes.of_responses > 0 && !writes.of_others && seen == all {
                self.responses.insert(*symbol);
            }
        }
    }

    /// `check(response, { name: (r) => … })`: what is given to each of them is the response.
    fn check(&mut self, call: &CallExpression<'_>) {
        let checks = self.symbol(&call.callee).is_some_and(|symbol| self.checks.contains(&symbol));
        let [value, sets, ..] = &call.arguments[..] else { return };
        let is_response = |value: &Argument<'_>| {
            value.as_expression().is_some_and(|value| self.is_response(value))
        };
        if !checks || !is_response(value) {
            return;
        }
        let Some(Expression::ObjectExpression(sets)) = sets.as_expression() else { return };
        let mut parameters = Vec::new();
        for property in &sets.properties {
            let ObjectPropertyKind::ObjectProperty(property) = property else { continue };
            parameters.extend(match property.value.get_inner_expression() {
                Expression::ArrowFunctionExpression(function) => first(&function.params),
                Expression::FunctionExpression(function) => first(&function.params),
                _ => None,
            });
        }
        for symbol in parameters {
            let writes = self.written.entry(symbol).or_default();
            (writes.of_responses, writes.declared) = (1, true);
        }
    }
}

/// The first parameter, if it is a plain name.
fn first(parameters: &FormalParameters<'_>) -> Option<SymbolId> {
    let first = parameters.items.first().filter(|first| first.initializer.is_none())?;
    first.pattern.get_binding_identifier()?.symbol_id.get()
}

impl<'a> Visit<'a> for Known<'_> {
    fn visit_variable_declarator(&mut self, declarator: &VariableDeclarator<'a>) {
        if let Some(init) = &declarator.init
            && let Some(id) = declarator.id.get_binding_identifier()
            && let Some(symbol) = id.symbol_id.get()
        {
            let is_response = self.is_response(init);
            if let Some(module) = required(init)
                && module == "k6/http"
            {
                self.modules.insert(symbol);
            }
            if self.is_batch(init) && !self.scoping.symbol_is_mutated(symbol) {
                self.batches.insert(symbol);
            }
            let writes = self.written.entry(symbol).or_default();
            match is_response && !writes.declared {
                true => (writes.of_responses, writes.declared) = (writes.of_responses + 1, true),
                // `var page = 1; var page = http.get(url)` is one variable.
                false => writes.of_others = true,
            }
        }
        walk::walk_variable_declarator(self, declarator);
    }

    fn visit_assignment_expression(&mut self, assignment: &AssignmentExpression<'a>) {
        if let AssignmentTarget::AssignmentTargetIdentifier(id) = &assignment.left
            && assignment.operator == AssignmentOperator::Assign
            && self.is_response(&assignment.right)
            && let Some(reference) = id.reference_id.get()
            && let Some(symbol) = self.scoping.get_reference(reference).symbol_id()
        {
            self.written.entry(symbol).or_default().of_responses += 1;
        }
        walk::walk_assignment_expression(self, assignment);
    }

    fn visit_call_expression(&mut self, call: &CallExpression<'a>) {
        self.check(call);
        walk::walk_call_expression(self, call);
    }
}

/// The specifier of `require("specifier")`.
fn required<'t>(expression: &'t Expression<'_>) -> Option<&'t str> {
    let Expression::CallExpression(call) = expression.get_inner_expression() else { return None };
    match call.arguments.first() {
        Some(Argument::StringLiteral(specifier)) if call.callee.is_specific_id("require") => {
            Some(specifier.value.as_str())
        }
        _ => None,
    }
}

struct Calls<'k, 's> {
    known: &'k Known<'s>,
    found: Vec<(u32, Lacking)>,
}

impl<'a> Visit<'a> for Calls<'_, '_> {
    fn visit_call_expression(&mut self, call: &CallExpression<'a>) {
        if !call.optional
            && let Expression::StaticMemberExpression(member) = call.callee.get_inner_expression()
        {
            let name = member.property.name.as_str();
            let lacking = match member.object.get_inner_expression() {
                object if self.known.is_response(object) => Lacking::response(name),
                Expression::StaticMemberExpression(inner)
                    if inner.property.name == "subtle" && self.is_global(&inner.object) =>
                {
                    Lacking::subtle(name)
                }
                _ => None,
            };
            self.found.extend(lacking.map(|lacking| (member.property.span.start, lacking)));
        }
        walk::walk_call_expression(self, call);
    }
}

impl Calls<'_, '_> {
    /// `crypto` itself, and not a variable of that name.
    fn is_global(&self, object: &Expression<'_>) -> bool {
        object.is_specific_id("crypto") && self.known.symbol(object).is_none()
    }
}

#[cfg(test)]
mod tests {
    use crate::source::parse::{Language, parse};

    fn check(text: &str, expected: Option<&str>) {
        let text = format!("import http from 'k6/http'; import {{ check }} from 'k6';\n{text}");
        for language in [Language::JavaScript, Language::TypeScript] {
            let said = parse("a", &text, language).err().map(|error| error.to_string());
            match (expected, &said) {
                (None, None) => {}
                (Some(name), Some(said)) if said.contains(name) => {}
                _ => panic!("{text}: expected {expected:?}, got {said:?}"),
            }
        }
    }

    #[test]
    fn a_call_of_what_is_not_there_is_found_where_the_text_shows_it() {
        for text in [
            "http.get('x').html();",
            "export default function () { const r = http.post('x'); r.html('title').text(); }",
            "let r; r = http.get('x'); r = http.put('y'); r.html();",
            "const a = http.get('x'); const b = a; b.html();",
            "check(http.get('x'), { ok: (r) => r.html().find('p').size() > 0 });",
            "const r = http.get('x'); check(r, { ok: function (x) { return x.html() } });",
            "export default async () => { const r = await http.asyncRequest('GET', 'x'); r.html() }",
            "import { get } from 'k6/http'; get('x').html();",
            "import * as all from 'k6/http'; all.get('x').html();",
            "const h = require('k6/http'); h.get('x').html();",
        ] {
            check(text, Some("`Response.html()` of k6 is not available"));
        }
        check("http.get('x').submitForm({});", Some("Response.submitForm()"));
        check("let r = http.get('x'); r = r.clickLink();", None);
        check("const r = http.get('x'); const s = r.clickLink();", Some("Response.clickLink()"));
        check("crypto.subtle.digest('SHA-256', x);", Some("crypto.subtle.digest()"));
    }

    #[test]
    fn what_only_looks_like_it_is_left_alone() {
        for text in [
            "const page = { html() {} }; page.html();",
            "let r = http.get('x'); r = { html() {} }; r.html();",
            "let r = http.get('x'); [r] = [{ html() {} }]; r.html();",
            "function f(r) { return r.html(); } f(http.get('x'));",
            "{ const http = { get: () => ({ html() {} }) }; http.get().html(); }",
            "const r = http.get('x'); r.htm(); r.html?.(); typeof r.html;",
            "http.batch([]).html();",
            "check({ html() {} }, { ok: (r) => r.html() });",
            "check(http.get('x'), { ok: (r) => { r = { html() {} }; return r.html() } });",
            "const crypto = { subtle: { digest() {} } }; crypto.subtle.digest();",
            "if (crypto.subtle) {} crypto.subtle.own();",
        ] {
            check(text, None);
        }
    }
}
