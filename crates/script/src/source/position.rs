//! From the place of an exception to what was called or read there. The engine says
//! `not a function` and a position; the text of the file has the name.

use oxc_allocator::Allocator;
use oxc_ast::ast::{
    CallExpression, Expression, ImportDeclarationSpecifier, NewExpression, Program, Statement,
    StaticMemberExpression,
};
use oxc_ast_visit::{Visit, walk};
use oxc_parser::Parser;
use oxc_span::{GetSpan, SourceType};

use super::lines::byte_offset;
use super::parse::on_deep_stack;
use crate::names::{self, METHODS};
use crate::options::nearest;

/// Longer callees are cut.
const SHOWN_CHARS_MAX: usize = 60;

/// Exports of a built-in module.
pub type Exports = dyn Fn(&str) -> Option<&'static [&'static str]> + Sync;

/// Words in place of `message`, if there are better ones.
pub fn explain(
    file: &str,
    text: &str,
    (line, column): (u32, u32),
    message: &str,
    exports: &Exports,
) -> Option<String> {
    let kind = Kind::of(message)?;
    let offset = byte_offset(text, line, column)? as u32;
    on_deep_stack(|| {
        let allocator = Allocator::default();
        let source_type = match file.ends_with("ts") {
            true => SourceType::ts().with_module(true),
            false => SourceType::mjs(),
        };
        let parsed = Parser::new(&allocator, text, source_type).parse();
        explain_in(&parsed.program, text, offset, line, &kind, message, exports)
    })
}

enum Kind {
    /// `not a function`
    Call,
    /// `cannot read property 'x' of undefined`
    Read(String),
    /// `x is not defined`
    Name(String),
    /// `object is not extensible`
    Frozen,
}

impl Kind {
    fn of(message: &str) -> Option<Kind> {
        if message == "not a function" {
            return Some(Kind::Call);
        }
        if message == "object is not extensible" {
            return Some(Kind::Frozen);
        }
        if let Some(name) = message.strip_suffix(" is not defined") {
            return Some(Kind::Name(name.trim_matches('\'').to_owned()));
        }
        let rest = message.strip_prefix("cannot read property '")?;
        let (name, _) = rest.split_once("' of ")?;
        Some(Kind::Read(name.to_owned()))
    }
}

fn explain_in(
    program: &Program<'_>,
    text: &str,
    offset: u32,
    line: u32,
    kind: &Kind,
    message: &str,
    exports: &Exports,
) -> Option<String> {
    let imports = Imports::of(program);
    let mut find = Find { text, offset, line, kind, called: None, objects: Vec::new() };
    match kind {
        Kind::Name(name) => {
            let own: Vec<&str> = imports.0.iter().map(|(local, ..)| local.as_str()).collect();
            let mut declared = Declared::default();
            declared.visit_program(program);
            let own: Vec<&str> =
                own.into_iter().chain(declared.0.iter().map(String::as_str)).collect();
            names::advice(name, &own).map(|advice| format!("{message}; {advice}"))
        }
        Kind::Call => {
            find.visit_program(program);
            let (callee, object, member) = find.called?;
            let said = format!("{callee} is not a function");
            let Some(member) = member else {
                return Some(said);
            };
            let module = imports.module(&object);
            if let Some(module) = module {
                let known: Vec<&str> = exports(module).unwrap_or_default().to_vec();
                return Some(match nearest(&member, &known).or_else(|| meant(module, &member)) {
                    Some(meant) => format!("{said}; did you mean {object}.{meant}?"),
                    None => format!("{said}: `{module}` has no `{member}`"),
                });
            }
            if object == "crypto" && names::import_of(&member).is_some() {
                return Some(format!(
                    "{said}; an import is missing: import crypto from 'k6/crypto';"
                ));
            }
            Some(match nearest(&member, METHODS).filter(|meant| *meant != member) {
                Some(meant) => format!("{said}; did you mean {object}.{meant}?"),
                None => said,
            })
        }
        Kind::Frozen => text.contains("SharedArray").then(|| {
            format!(
                "{message}: an element of a SharedArray is read only, and made anew at each read; keep what belongs to \
                 it in a variable of the script: const tokens = {{}}; ... tokens[user.name] = token"
            )
        }),
        Kind::Read(_) => {
            find.visit_program(program);
            find.objects.dedup();
            match &find.objects[..] {
                [object] => {
                    let what = if message.ends_with("null") { "null" } else { "undefined" };
                    let mut source = FirstIndex { of: object, text, found: None };
                    source.visit_program(program);
                    let why = source.found.unwrap_or_default();
                    Some(format!("{message}: `{object}` is {what}{why}"))
                }
                _ => None,
            }
        }
    }
}

/// Words of other clients.
fn meant(module: &str, member: &str) -> Option<&'static str> {
    match (module, member) {
        ("k6/http", "delete" | "remove") => Some("del"),
        ("k6/http", "fetch" | "send") => Some("request"),
        _ => None,
    }
}

/// Local names of what is imported as a whole, with their modules.
struct Imports(Vec<(String, String, bool)>);

impl Imports {
    fn of(program: &Program<'_>) -> Imports {
        let mut all = Vec::new();
        for statement in &program.body {
            let Statement::ImportDeclaration(import) = statement else { continue };
            for specifier in import.specifiers.iter().flatten() {
                let whole = !matches!(specifier, ImportDeclarationSpecifier::ImportSpecifier(_));
                let local = specifier.local().name.to_string();
                all.push((local, import.source.value.to_string(), whole));
            }
        }
        Imports(all)
    }

    fn module(&self, local: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _, whole)| *whole && known == local);
        found.map(|(_, module, _)| module.as_str()).filter(|module| module.starts_with("k6"))
    }
}

/// Names that are declared anywhere in a file.
#[derive(Default)]
struct Declared(Vec<String>);

impl<'a> Visit<'a> for Declared {
    fn visit_binding_identifier(&mut self, id: &oxc_ast::ast::BindingIdentifier<'a>) {
        self.0.push(id.name.to_string());
    }
}

/// Where a variable was taken from a list by a number that begins at 1.
struct FirstIndex<'t> {
    of: &'t str,
    text: &'t str,
    found: Option<String>,
}

impl<'a> Visit<'a> for FirstIndex<'_> {
    fn visit_variable_declarator(&mut self, declarator: &oxc_ast::ast::VariableDeclarator<'a>) {
        if declarator.id.get_identifier_name().is_some_and(|name| name == self.of)
            && let Some(Expression::ComputedMemberExpression(member)) = &declarator.init
        {
            let span = |span: oxc_span::Span| &self.text[span.start as usize..span.end as usize];
            let (list, index) = (span(member.object.span()), span(member.expression.span()));
            if ["__VU", "exec.vu.idInTest", "exec.vu.idInInstance", "vu.idInTest"].contains(&index)
            {
                self.found = Some(format!(
                    ", because `{index}` begins at 1 and `{list}` at 0; write {list}[({index} - 1) % {list}.length]"
                ));
            }
        }
        walk::walk_variable_declarator(self, declarator);
    }
}

struct Find<'t> {
    text: &'t str,
    offset: u32,
    line: u32,
    kind: &'t Kind,
    /// The callee, what it belongs to, and its name there.
    called: Option<(String, String, Option<String>)>,
    objects: Vec<String>,
}

impl Find<'_> {
    fn shown(&self, span: oxc_span::Span) -> String {
        let text = &self.text[span.start as usize..span.end as usize];
        let one_line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let one_line = one_line.replace(" .", ".");
        match one_line.char_indices().nth(SHOWN_CHARS_MAX) {
            Some((at, _)) => format!("{}...", &one_line[..at]),
            None => one_line,
        }
    }

    fn callee(&mut self, callee: &Expression<'_>) {
        let inner = callee.get_inner_expression();
        let (at, object, member) = match inner {
            Expression::StaticMemberExpression(member) => (
                member.property.span.start,
                self.shown(member.object.span()),
                Some(member.property.name.to_string()),
            ),
            other => (other.span().start, String::new(), None),
        };
        // What is called after `new` has its place where it begins.
        if self.called.is_none() && (at == self.offset || inner.span().start == self.offset) {
            self.called = Some((self.shown(inner.span()), object, member));
        }
    }
}

impl<'a> Visit<'a> for Find<'_> {
    fn visit_call_expression(&mut self, call: &CallExpression<'a>) {
        // `a.b()` inside of `a.b().c()` begins at the same place: the name decides first.
        if let Expression::StaticMemberExpression(member) = call.callee.get_inner_expression() {
            if member.property.span.start == self.offset {
                self.callee(&call.callee);
            }
        } else if call.callee.get_inner_expression().span().start == self.offset {
            walk::walk_call_expression(self, call);
            self.callee(&call.callee);
            return;
        }
        walk::walk_call_expression(self, call);
    }

    fn visit_new_expression(&mut self, call: &NewExpression<'a>) {
        if call.callee.get_inner_expression().span().start == self.offset {
            self.callee(&call.callee);
        }
        walk::walk_new_expression(self, call);
    }

    fn visit_static_member_expression(&mut self, member: &StaticMemberExpression<'a>) {
        if let Kind::Read(name) = self.kind
            && member.property.name == name.as_str()
            && !member.optional
            && super::error::line_and_column(self.text, member.property.span.start as usize).0
                == self.line
        {
            self.objects.push(self.shown(member.object.span()));
        }
        walk::walk_static_member_expression(self, member);
    }
}

#[cfg(test)]
mod tests {
    use super::explain;

    fn said(text: &str, place: (u32, u32), message: &str) -> Option<String> {
        let exports = |name: &str| crate::modules::find(name).map(|native| native.exports);
        explain("file:///s.js", text, place, message, &exports)
    }

    #[test]
    fn what_is_not_a_function_has_a_name_and_a_likely_one() {
        let table = [
            ("http.gett('x');", 6, "http.gett is not a function; did you mean http.get?"),
            ("http.delete('x');", 6, "http.delete is not a function; did you mean http.del?"),
            ("http.quux('x');", 6, "`k6/http` has no `quux`"),
            ("r.jsn();", 3, "r.jsn is not a function; did you mean r.json?"),
            ("u();", 1, "u is not a function"),
            ("new o.Foo();", 5, "o.Foo is not a function"),
            ("o['zz']();", 1, "o['zz'] is not a function"),
            ("crypto.md5('a');", 8, "import crypto from 'k6/crypto';"),
            ("o.a.b().c();", 5, "o.a.b is not a function"),
        ];
        for (line, column, expected) in table {
            let text = format!("import http from 'k6/http';\n{line}\n");
            let said = said(&text, (2, column), "not a function").unwrap_or_default();
            assert!(said.contains(expected), "{line}: {said}");
        }
    }

    #[test]
    fn what_is_undefined_is_named_where_there_is_no_doubt() {
        let message = "cannot read property 'c' of undefined";
        let found = said("o.a.b.c;", (1, 1), message).unwrap();
        assert_eq!(found, "cannot read property 'c' of undefined: `o.a.b` is undefined");
        let text = "import exec from 'k6/execution';\nconst u = users[exec.vu.idInTest]; u.c;";
        let found = said(text, (2, 36), message).unwrap();
        assert!(found.contains("begins at 1 and `users` at 0"), "{found}");
        assert_eq!(said("o.c + p.c;", (1, 1), message), None);
    }
}
