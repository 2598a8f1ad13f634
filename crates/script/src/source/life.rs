//! The life of a test, as far as its text shows that it was misunderstood: what k6 calls and the
//! script does not export, and what `setup()` leaves behind for virtual users that never see it.

use std::collections::HashMap;

use oxc_ast::ast::{
    AssignmentExpression, AssignmentTarget, BindingPattern, CallExpression, Declaration,
    ExportDefaultDeclarationKind, Expression, FormalParameters, IdentifierReference, NewExpression,
    ObjectPropertyKind, Program, ReturnStatement, Statement, VariableDeclaration,
};
use oxc_ast_visit::{Visit, walk};
use oxc_semantic::Scoping;
use oxc_span::{GetSpan, Span};
use oxc_syntax::symbol::SymbolId;

/// Names that mean something when they are exported.
const EXPORTS: &[&str] = &["options", "setup", "teardown", "handleSummary"];

/// Keys that nothing but a test's options has.
const LOADS: &[&str] = &["vus", "duration", "stages", "scenarios", "iterations", "thresholds"];

type Warnings = Vec<(u32, String)>;

/// What is wrong in any file, and what is wrong in the script itself.
pub fn look(
    program: &Program<'_>,
    scoping: &Scoping,
    exports: &[&str],
    is_esm: bool,
) -> (Warnings, Warnings) {
    let mut top = Top::default();
    program.body.iter().for_each(|statement| top.statement(statement));
    let mut uses = Uses { scoping, top: &top, of: HashMap::new(), maps: Vec::new() };
    uses.visit_program(program);
    let anywhere = top.lost(&uses);
    let mut of_entry = top.kept_apart(&uses);
    if is_esm && (top.has_default || !exports.is_empty()) {
        of_entry.extend(top.not_exported(&uses, exports));
    }
    if is_esm && top.setup.is_none() && !exports.contains(&"setup") {
        of_entry.extend(top.no_data(&uses));
    }
    of_entry.extend(uses.maps);
    (anywhere, of_entry)
}

/// What a file declares.
#[derive(Default)]
struct Top {
    variables: Vec<Variable>,
    /// The function `setup`.
    setup: Option<Span>,
    /// Other functions that are exported.
    exported: Vec<Span>,
    /// Those of them that run when virtual users are done.
    ends: Vec<(String, Span)>,
    has_default: bool,
    /// The first parameter of the default function.
    data: Option<SymbolId>,
}

struct Variable {
    symbol: SymbolId,
    name: String,
    at: u32,
    /// It has a key that only options have.
    is_load: bool,
    is_function: bool,
    /// Begins as `[]`, `{}` or `new Map()`.
    is_empty: bool,
    /// Begins as that, as a literal, or as nothing.
    is_plain: bool,
}

impl Top {
    fn statement(&mut self, statement: &Statement<'_>) {
        match statement {
            Statement::FunctionDeclaration(function) => {
                let id = function.id.as_ref();
                let symbol = id.and_then(|id| id.symbol_id.get());
                if let (Some(id), Some(symbol)) = (id, symbol) {
                    self.variables.push(Variable {
                        symbol,
                        name: id.name.to_string(),
                        at: id.span.start,
                        is_load: false,
                        is_function: true,
                        is_empty: false,
                        is_plain: false,
                    });
                }
            }
            Statement::VariableDeclaration(variables) => self.declared(variables),
            Statement::ExportDeclaration(export) => match &export.declaration {
                Declaration::FunctionDeclaration(function) => {
                    let name = function.id.as_ref().map(|id| id.name.as_str());
                    self.function(name.unwrap_or_default(), function.span);
                }
                Declaration::VariableDeclaration(variables) => {
                    for one in &variables.declarations {
                        let name = one.id.get_identifier_name().map(|name| name.to_string());
                        let init = one.init.as_ref().map(|init| init.get_inner_expression());
                        if let Some(init) = init.filter(|init| is_function(init)) {
                            self.function(&name.unwrap_or_default(), init.span());
                        }
                    }
                    self.declared(variables);
                }
                _ => {}
            },
            Statement::ExportDefaultDeclaration(export) => {
                self.has_default = true;
                self.exported.push(export.span);
                self.data = match &export.declaration {
                    ExportDefaultDeclarationKind::FunctionDeclaration(function) => {
                        first(&function.params).filter(|_| function.id.is_none())
                    }
                    ExportDefaultDeclarationKind::ArrowFunctionExpression(function) => {
                        first(&function.params)
                    }
                    _ => None,
                };
            }
            _ => {}
        }
    }

    fn function(&mut self, name: &str, span: Span) {
        match name {
            "setup" => self.setup = Some(span),
            "teardown" | "handleSummary" => {
                self.ends.push((name.to_owned(), span));
                self.exported.push(span);
            }
            _ => self.exported.push(span),
        }
    }

    /// What virtual users write to variables is their own.
    fn kept_apart(&self, uses: &Uses<'_>) -> Warnings {
        let is_in = |span: Span, offset: u32| span.start <= offset && offset < span.end;
        let is_end = |offset: u32| self.ends.iter().any(|(_, span)| is_in(*span, offset));
        let by_users = |offset: &u32| {
            self.exported.iter().any(|span| is_in(*span, *offset)) && !is_end(*offset)
        };
        let mut warnings = Vec::new();
        for one in self.variables.iter().filter(|one| one.is_plain) {
            let Some(uses) = uses.of.get(&one.symbol) else { continue };
            let mut changes = uses.writes.iter().chain(&uses.fills).peekable();
            let fills = uses.fills.is_empty() || one.is_empty;
            if changes.peek().is_none() || !fills || !changes.all(by_users) {
                continue;
            }
            for (function, span) in &self.ends {
                let Some(read) = uses.reads.iter().find(|read| is_in(*span, **read)) else {
                    continue;
                };
                let name = &one.name;
                warnings.push((
                    *read,
                    format!(
                        "`{name}` is changed by virtual users and read in {function}(), which has variables of its own \
                         and never sees that; count with `new Counter('{name}')` of k6/metrics, and read \
                         `data.metrics.{name}` in handleSummary(data)"
                    ),
                ));
            }
        }
        warnings
    }

    fn declared(&mut self, variables: &VariableDeclaration<'_>) {
        for one in &variables.declarations {
            let BindingPattern::BindingIdentifier(id) = &one.id else { continue };
            let Some(symbol) = id.symbol_id.get() else { continue };
            let init = one.init.as_ref().map(|init| init.get_inner_expression());
            let is_load = match init {
                Some(Expression::ObjectExpression(object)) => {
                    object.properties.iter().any(|property| match property {
                        ObjectPropertyKind::ObjectProperty(property) => {
                            property.key.static_name().is_some_and(|name| LOADS.contains(&&*name))
                        }
                        ObjectPropertyKind::SpreadProperty(_) => false,
                    })
                }
                _ => false,
            };
            let is_empty = match init {
                Some(Expression::ObjectExpression(object)) => object.properties.is_empty(),
                Some(Expression::ArrayExpression(list)) => list.elements.is_empty(),
                Some(Expression::NewExpression(made)) => made.arguments.is_empty(),
                _ => false,
            };
            self.variables.push(Variable {
                symbol,
                name: id.name.to_string(),
                at: id.span.start,
                is_load,
                is_function: init.is_some_and(|init| is_function(init)),
                is_empty,
                is_plain: is_empty || init.is_none_or(|init| init.is_literal()),
            });
        }
    }

    /// `const options = { vus: 10 }` without `export`.
    fn not_exported(&self, uses: &Uses<'_>, exports: &[&str]) -> Warnings {
        let mut warnings = Vec::new();
        for one in &self.variables {
            let name = one.name.as_str();
            if !EXPORTS.contains(&name) || exports.contains(&name) {
                continue;
            }
            let used = uses.of.get(&one.symbol).map_or(0, |uses| uses.reads.len());
            let text = match name {
                // A name that is used is a name for something.
                "options" if one.is_load && used == 0 => format!(
                    "`{name}` is not exported and so has no effect; write `export const {name}`. Without it, 1 \
                     virtual user runs 1 iteration, if no flag says otherwise"
                ),
                "options" => continue,
                _ if one.is_function && used == 0 => format!(
                    "`{name}` is not exported, so that nothing calls it; write `export function {name}()`"
                ),
                _ => continue,
            };
            warnings.push((one.at, text));
        }
        warnings
    }

    /// What `setup()` writes to variables is gone with it.
    fn lost(&self, uses: &Uses<'_>) -> Warnings {
        let Some(setup) = self.setup else { return Vec::new() };
        let is_in = |span: Span, offset: u32| span.start <= offset && offset < span.end;
        let mut warnings = Vec::new();
        for one in &self.variables {
            let Some(uses) = uses.of.get(&one.symbol) else { continue };
            let all_in_setup = |offsets: &[u32]| offsets.iter().all(|offset| is_in(setup, *offset));
            let written = !uses.writes.is_empty() && all_in_setup(&uses.writes);
            let filled = one.is_empty
                && uses.writes.is_empty()
                && !uses.fills.is_empty()
                && all_in_setup(&uses.fills);
            if !written && !filled {
                continue;
            }
            let read = uses
                .reads
                .iter()
                .find(|offset| self.exported.iter().any(|function| is_in(*function, **offset)));
            if let Some(read) = read {
                let name = &one.name;
                warnings.push((
                    *read,
                    format!(
                        "`{name}` is set in setup() alone, and virtual users do not see that: each has variables of \
                         its own. Return it, `return {{ {name} }}`, and take it from the argument: \
                         `export default function (data) {{ ... data.{name} ... }}`"
                    ),
                ));
            }
        }
        warnings
    }

    /// `data.token` where there is no `setup()`.
    fn no_data(&self, uses: &Uses<'_>) -> Warnings {
        let Some(uses) = self.data.and_then(|data| uses.of.get(&data)) else { return Vec::new() };
        let Some(read) = uses.members.first().filter(|_| uses.writes.is_empty()) else {
            return Vec::new();
        };
        let text = "the argument of the default function is what setup() returns, and there is no setup(), so \
                    that it is undefined; write `export function setup() { return { ... } }`";
        vec![(*read, text.to_owned())]
    }
}

fn first(parameters: &FormalParameters<'_>) -> Option<SymbolId> {
    let first = parameters.items.first().filter(|first| first.initializer.is_none())?;
    first.pattern.get_binding_identifier()?.symbol_id.get()
}

fn is_function(expression: &Expression<'_>) -> bool {
    matches!(expression, Expression::ArrowFunctionExpression(_) | Expression::FunctionExpression(_))
}

#[derive(Default)]
struct Use {
    reads: Vec<u32>,
    writes: Vec<u32>,
    /// `list.push(x)`, `map.key = x`
    fills: Vec<u32>,
    /// `x.name`
    members: Vec<u32>,
}

struct Uses<'s> {
    scoping: &'s Scoping,
    top: &'s Top,
    of: HashMap<SymbolId, Use>,
    /// Maps and sets that `setup()` returns.
    maps: Warnings,
}

impl Uses<'_> {
    fn symbol(&self, id: &IdentifierReference<'_>) -> Option<SymbolId> {
        self.scoping.get_reference(id.reference_id.get()?).symbol_id()
    }

    fn root(&self, expression: &Expression<'_>) -> Option<SymbolId> {
        match expression.get_inner_expression() {
            Expression::Identifier(id) => self.symbol(id),
            _ => None,
        }
    }
}

/// Methods that put something into a list, a set or a map.
const FILLING: &[&str] = &["push", "unshift", "add", "set"];

impl<'a> Visit<'a> for Uses<'_> {
    fn visit_identifier_reference(&mut self, id: &IdentifierReference<'a>) {
        let Some(symbol) = self.symbol(id) else { return };
        let reference = id.reference_id.get().map(|id| self.scoping.get_reference(id));
        let (read, write) = reference.map_or((true, false), |one| (one.is_read(), one.is_write()));
        let of = self.of.entry(symbol).or_default();
        if read {
            of.reads.push(id.span.start);
        }
        if write {
            of.writes.push(id.span.start);
        }
    }

    fn visit_call_expression(&mut self, call: &CallExpression<'a>) {
        if let Expression::StaticMemberExpression(member) = call.callee.get_inner_expression()
            && FILLING.contains(&member.property.name.as_str())
            && let Some(symbol) = self.root(&member.object)
        {
            self.of.entry(symbol).or_default().fills.push(call.span.start);
        }
        walk::walk_call_expression(self, call);
    }

    fn visit_assignment_expression(&mut self, assignment: &AssignmentExpression<'a>) {
        let object = match &assignment.left {
            AssignmentTarget::StaticMemberExpression(member) => Some(&member.object),
            AssignmentTarget::ComputedMemberExpression(member) => Some(&member.object),
            _ => None,
        };
        if let Some(symbol) = object.and_then(|object| self.root(object)) {
            self.of.entry(symbol).or_default().fills.push(assignment.span.start);
        }
        walk::walk_assignment_expression(self, assignment);
    }

    fn visit_static_member_expression(
        &mut self,
        member: &oxc_ast::ast::StaticMemberExpression<'a>,
    ) {
        if let Some(symbol) = self.root(&member.object).filter(|_| !member.optional) {
            self.of.entry(symbol).or_default().members.push(member.object.span().start);
        }
        walk::walk_static_member_expression(self, member);
    }

    fn visit_return_statement(&mut self, statement: &ReturnStatement<'a>) {
        let at = statement.span.start;
        if self.top.setup.is_some_and(|setup| setup.start <= at && at < setup.end)
            && let Some(argument) = &statement.argument
        {
            let mut maps = Maps { found: Vec::new() };
            maps.direct(argument);
            for (at, name) in maps.found {
                let instead = match name.as_str() {
                    "Map" => "Object.fromEntries(map)",
                    _ => "Array.from(set)",
                };
                self.maps.push((
                    at,
                    format!(
                        "what setup() returns is handed on as JSON, in which a {name} becomes {{}}; return {instead}"
                    ),
                ));
            }
        }
        walk::walk_return_statement(self, statement);
    }
}

/// Maps and sets in what is returned, without what is called with them.
struct Maps {
    found: Vec<(u32, String)>,
}

impl Maps {
    fn direct(&mut self, expression: &Expression<'_>) {
        match expression.get_inner_expression() {
            Expression::NewExpression(made) => self.made(made),
            Expression::ObjectExpression(object) => {
                for property in &object.properties {
                    if let ObjectPropertyKind::ObjectProperty(property) = property {
                        self.direct(&property.value);
                    }
                }
            }
            _ => {}
        }
    }

    fn made(&mut self, made: &NewExpression<'_>) {
        if let Expression::Identifier(id) = &made.callee
            && matches!(id.name.as_str(), "Map" | "Set")
        {
            self.found.push((made.span.start, id.name.to_string()));
        }
    }
}
