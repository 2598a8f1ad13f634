//! What is surely a mistake, where the text of a file shows it, though k6 runs it without a word:
//! checks that cannot fail or cannot pass, arguments in the wrong place, names that nobody has
//! imported. Only what is certain is said.

use std::collections::{BTreeSet, HashMap, HashSet};

use oxc_ast::ast::{
    Argument, ArrowFunctionBody, AssignmentExpression, AssignmentOperator, BindingPattern,
    CallExpression, Declaration, Expression, Function, FunctionBody, IfStatement,
    ImportDeclarationSpecifier, LogicalExpression, ObjectExpression, ObjectPropertyKind, Program,
    Statement, StaticMemberExpression, TryStatement, UnaryExpression, UnaryOperator,
    VariableDeclarator,
};
use oxc_ast_visit::{Visit, walk};
use oxc_semantic::{ScopeFlags, Scoping};
use oxc_span::{GetSpan, Span};
use oxc_syntax::symbol::SymbolId;

use super::{life, loops, members, values};
use crate::names;

#[derive(Debug, Default)]
pub struct Hints {
    /// Offsets and what to say.
    pub warnings: Vec<(u32, String)>,
    pub unimported: Vec<Unimported>,
    /// Names may be made that no declaration shows.
    pub makes_globals: bool,
    /// What is read from `__ENV` without a default.
    pub environment: BTreeSet<String>,
    /// All that is read from `__ENV` by name.
    pub environment_read: BTreeSet<String>,
    /// Exported names that are not `default`.
    pub exports: Vec<(String, u32)>,
    /// What is only a mistake in the script itself, and not in a file that it imports.
    pub of_entry: Vec<(u32, String)>,
    /// A function that is exported has a loop without an end.
    pub is_endless: bool,
}

/// A name of k6 that the file uses and does not have.
#[derive(Debug)]
pub struct Unimported {
    pub offset: u32,
    pub name: String,
    /// The file asks for it first, or is ready for an exception.
    pub is_guarded: bool,
}

pub fn gather(text: &str, program: &Program<'_>, scoping: &Scoping, is_esm: bool) -> Hints {
    let mut hints = Hints {
        makes_globals: ["globalThis", "global.", "self.", "window.", "eval(", "Function("]
            .iter()
            .any(|word| text.contains(word)),
        exports: program.body.iter().flat_map(exported).collect(),
        ..Hints::default()
    };
    let mut look = Look {
        scoping,
        imports: HashMap::new(),
        asked: HashSet::new(),
        tried: Vec::new(),
        promises: HashSet::new(),
        objects: Objects::of(program),
        read: BTreeSet::new(),
        defaulted: BTreeSet::new(),
        warnings: Vec::new(),
    };
    let missing = unresolved(scoping, is_esm);
    // Most of what a bundle is made of has nothing to do with k6.
    if missing.is_empty() && !text.contains("k6") && !text.contains("__ENV") {
        return hints;
    }
    program.body.iter().for_each(|statement| look.import(statement));
    look.visit_program(program);
    for name in missing {
        let offset = first_use(program, &name);
        let tried = look.tried.iter().any(|span| span.start <= offset && offset < span.end);
        let is_guarded = tried || look.asked.contains(&name);
        hints.unimported.push(Unimported { offset, name, is_guarded });
    }
    look.warnings.extend(members::look(program, scoping));
    look.warnings.extend(values::look(text, program, scoping));
    let exports: Vec<&str> = hints.exports.iter().map(|(name, _)| name.as_str()).collect();
    let (anywhere, of_entry) = life::look(program, scoping, &exports, is_esm);
    look.warnings.extend(anywhere);
    look.warnings.sort();
    look.warnings.dedup();
    let endless = loops::look(program);
    hints.is_endless = !endless.is_empty();
    hints.of_entry = of_entry.into_iter().chain(endless).collect();
    hints.warnings = look.warnings;
    hints.environment = look.read.difference(&look.defaulted).cloned().collect();
    hints.environment_read = look.read;
    hints
}

/// Names of k6 that are nowhere declared, and that nothing is written to.
fn unresolved(scoping: &Scoping, is_esm: bool) -> Vec<String> {
    // Outside of modules, writing to a name makes it.
    let all = scoping.root_unresolved_references().iter().filter(|_| is_esm);
    let unknown = all.filter(|(name, references)| {
        let written =
            |id: &oxc_syntax::reference::ReferenceId| scoping.get_reference(*id).is_write();
        let read = |id: &oxc_syntax::reference::ReferenceId| scoping.get_reference(*id).is_read();
        names::import_of(name.as_str()).is_some()
            && !references.iter().any(written)
            && references.iter().any(read)
    });
    unknown.map(|(name, _)| name.to_string()).collect()
}

/// Where a name is used first as a value.
fn first_use(program: &Program<'_>, name: &str) -> u32 {
    struct Find<'n> {
        name: &'n str,
        at: Option<u32>,
    }
    impl<'a> Visit<'a> for Find<'_> {
        fn visit_identifier_reference(&mut self, id: &oxc_ast::ast::IdentifierReference<'a>) {
            if id.name == self.name {
                let at = id.span.start;
                self.at = Some(self.at.map_or(at, |known| known.min(at)));
            }
        }
    }
    let mut find = Find { name, at: None };
    find.visit_program(program);
    find.at.unwrap_or(0)
}

fn exported(statement: &Statement<'_>) -> Vec<(String, u32)> {
    let mut names = Vec::new();
    match statement {
        Statement::ExportDeclaration(export) => match &export.declaration {
            Declaration::FunctionDeclaration(function) => {
                names.extend(function.id.as_ref().map(|id| (id.name.to_string(), id.span.start)));
            }
            Declaration::VariableDeclaration(variables) => {
                for one in &variables.declarations {
                    if let BindingPattern::BindingIdentifier(id) = &one.id {
                        names.push((id.name.to_string(), id.span.start));
                    }
                }
            }
            _ => {}
        },
        Statement::ExportNamedDeclaration(export) => {
            for specifier in &export.specifiers {
                let name = specifier.exported.name().to_string();
                names.push((name, specifier.exported.span().start));
            }
        }
        _ => {}
    }
    names
}

struct Look<'s> {
    scoping: &'s Scoping,
    /// Module and name of what was imported; `default` and `*` are the module as a whole.
    imports: HashMap<SymbolId, (String, String)>,
    /// `typeof name`.
    asked: HashSet<String>,
    tried: Vec<Span>,
    /// Variables that hold the promise of a response.
    promises: HashSet<SymbolId>,
    /// Variables that are declared with params of a request.
    objects: Objects,
    read: BTreeSet<String>,
    defaulted: BTreeSet<String>,
    warnings: Vec<(u32, String)>,
}

impl Look<'_> {
    fn import(&mut self, statement: &Statement<'_>) {
        let Statement::ImportDeclaration(import) = statement else { return };
        for specifier in import.specifiers.iter().flatten() {
            let name = match specifier {
                ImportDeclarationSpecifier::ImportSpecifier(one) => one.imported.name().to_string(),
                ImportDeclarationSpecifier::ImportDefaultSpecifier(_) => "default".to_owned(),
                ImportDeclarationSpecifier::ImportNamespaceSpecifier(_) => "*".to_owned(),
            };
            let source = import.source.value.to_string();
            self.imports.insert(specifier.local().symbol_id(), (source, name));
        }
    }

    fn imported(&self, expression: &Expression<'_>) -> Option<(&str, &str)> {
        let Expression::Identifier(id) = expression.get_inner_expression() else { return None };
        let symbol = self.scoping.get_reference(id.reference_id.get()?).symbol_id()?;
        self.imports.get(&symbol).map(|(module, name)| (module.as_str(), name.as_str()))
    }

    fn holds_promise(&self, expression: &Expression<'_>) -> bool {
        let Expression::Identifier(id) = expression.get_inner_expression() else { return false };
        let reference = id.reference_id.get().map(|id| self.scoping.get_reference(id));
        reference.and_then(|one| one.symbol_id()).is_some_and(|one| self.promises.contains(&one))
    }

    fn is_check(&self, callee: &Expression<'_>) -> bool {
        self.imported(callee).is_some_and(|(module, name)| {
            name == "check" && (module == "k6" || module.contains("jslib.k6.io/k6-utils"))
        })
    }

    /// `get` of `http.get`, if that is the module's.
    fn request<'t>(&self, callee: &'t Expression<'_>) -> Option<&'t str> {
        let Expression::StaticMemberExpression(member) = callee.get_inner_expression() else {
            return None;
        };
        let (module, name) = self.imported(&member.object)?;
        let whole = module == "k6/http" && (name == "default" || name == "*");
        whole.then(|| member.property.name.as_str())
    }

    fn check(&mut self, call: &CallExpression<'_>) {
        let Some(Argument::ObjectExpression(sets)) = call.arguments.get(1) else { return };
        for property in &sets.properties {
            let ObjectPropertyKind::ObjectProperty(property) = property else { continue };
            let name = property.key.static_name().unwrap_or_default().into_owned();
            match property.value.get_inner_expression() {
                Expression::ArrowFunctionExpression(function) => {
                    self.arrow(&name, &function.body, property.span);
                }
                Expression::FunctionExpression(function) => {
                    if let Some(body) = function.body.as_ref().filter(|_| !function.generator) {
                        self.predicate(&name, body, property.span);
                    }
                }
                _ => {}
            }
        }
    }

    fn arrow(&mut self, name: &str, body: &ArrowFunctionBody<'_>, span: Span) {
        match body {
            ArrowFunctionBody::FunctionBody(body) => self.predicate(name, body, span),
            other => {
                if let Some(at) = other.as_expression().and_then(assignment) {
                    self.cannot_fail(name, at);
                }
            }
        }
    }

    fn cannot_fail(&mut self, name: &str, at: u32) {
        let text = format!(
            "the check `{name}` assigns with `=` and so cannot find anything wrong; `===` compares"
        );
        self.warnings.push((at, text));
    }

    fn predicate(&mut self, name: &str, body: &FunctionBody<'_>, span: Span) {
        let mut results = Results::default();
        results.visit_function_body(body);
        if let Some(at) = results.assigned {
            self.cannot_fail(name, at);
        } else if !results.returns && !results.throws {
            let text = format!(
                "the check `{name}` returns nothing and so always fails; write `return`, or leave the braces out"
            );
            self.warnings.push((span.start, text));
        }
    }

    /// Params of a request, written here or held by a variable that holds nothing else.
    fn are_params(&self, expression: &Expression<'_>) -> bool {
        match expression.get_inner_expression() {
            Expression::ObjectExpression(object) => looks_like_params(object),
            Expression::Identifier(id) => {
                let reference = id.reference_id.get().map(|id| self.scoping.get_reference(id));
                reference.and_then(|reference| reference.symbol_id()).is_some_and(|symbol| {
                    self.objects.params.contains(&symbol) && !self.scoping.symbol_is_mutated(symbol)
                })
            }
            _ => false,
        }
    }

    fn arguments_of_request(&mut self, name: &str, call: &CallExpression<'_>) {
        let at = call.span.start;
        match (name, call.arguments.get(1), call.arguments.get(2)) {
            ("get" | "head", Some(_), Some(third)) if is_something(third) => {
                let text = format!(
                    "http.{name}() takes a URL and params and no body, so that its third argument has no effect; \
                     write http.{name}(url, params)"
                );
                self.warnings.push((at, text));
            }
            ("post" | "put" | "patch" | "del" | "options", Some(body), None)
                if body.as_expression().is_some_and(|body| self.are_params(body)) =>
            {
                let text = format!(
                    "the second argument of http.{name}() is the body, so that these headers are sent as a form; write \
                     http.{name}(url, body, params), with null for no body"
                );
                self.warnings.push((at, text));
            }
            _ => {}
        }
    }
}

/// Variables by what they are declared with.
#[derive(Default)]
struct Objects {
    params: HashSet<SymbolId>,
}

impl Objects {
    fn of(program: &Program<'_>) -> Objects {
        let mut objects = Objects::default();
        objects.visit_program(program);
        objects
    }
}

impl<'a> Visit<'a> for Objects {
    fn visit_variable_declarator(&mut self, declarator: &VariableDeclarator<'a>) {
        if let Some(Expression::ObjectExpression(object)) =
            declarator.init.as_ref().map(|init| init.get_inner_expression())
            && looks_like_params(object)
        {
            let id = declarator.id.get_binding_identifier();
            self.params.extend(id.and_then(|id| id.symbol_id.get()));
        }
        walk::walk_variable_declarator(self, declarator);
    }
}

/// `{ headers: { … } }`, which no form has.
fn looks_like_params(object: &ObjectExpression<'_>) -> bool {
    object.properties.iter().any(|property| match property {
        ObjectPropertyKind::ObjectProperty(property) => {
            property.key.static_name().is_some_and(|name| name == "headers" || name == "tags")
                && matches!(property.value, Expression::ObjectExpression(_))
        }
        ObjectPropertyKind::SpreadProperty(_) => false,
    })
}

fn is_something(argument: &Argument<'_>) -> bool {
    !matches!(argument, Argument::NullLiteral(_))
        && argument.as_expression().is_none_or(|value| !value.is_undefined())
}

/// Where `a = b` stands, if that is what an expression is.
fn assignment(expression: &Expression<'_>) -> Option<u32> {
    match expression.get_inner_expression() {
        Expression::AssignmentExpression(assignment) => {
            let plain = assignment.operator == AssignmentOperator::Assign;
            plain.then_some(assignment.span.start)
        }
        Expression::LogicalExpression(both) => {
            assignment(&both.left).or_else(|| assignment(&both.right))
        }
        _ => None,
    }
}

/// What a function gives back, without the functions in it.
#[derive(Default)]
struct Results {
    returns: bool,
    throws: bool,
    assigned: Option<u32>,
}

impl<'a> Visit<'a> for Results {
    fn visit_return_statement(&mut self, statement: &oxc_ast::ast::ReturnStatement<'a>) {
        self.returns = true;
        let assigned = statement.argument.as_ref().and_then(assignment);
        self.assigned = self.assigned.or(assigned);
    }
    fn visit_throw_statement(&mut self, _: &oxc_ast::ast::ThrowStatement<'a>) {
        self.throws = true;
    }
    fn visit_function(&mut self, _: &Function<'a>, _: ScopeFlags) {}
    fn visit_arrow_function_expression(&mut self, _: &oxc_ast::ast::ArrowFunctionExpression<'a>) {}
}

/// The `X` of `__ENV.X`.
fn environment<'t>(expression: &'t Expression<'_>) -> Option<&'t str> {
    match expression.get_inner_expression() {
        Expression::StaticMemberExpression(member) if member.object.is_specific_id("__ENV") => {
            Some(member.property.name.as_str())
        }
        _ => None,
    }
}

impl<'a> Visit<'a> for Look<'_> {
    fn visit_call_expression(&mut self, call: &CallExpression<'a>) {
        if self.is_check(&call.callee) {
            self.check(call);
        }
        if let Some(name) = self.request(&call.callee) {
            self.arguments_of_request(name, call);
        }
        walk::walk_call_expression(self, call);
    }

    fn visit_if_statement(&mut self, statement: &IfStatement<'a>) {
        if let Expression::AssignmentExpression(assignment) = statement.test.get_inner_expression()
            && assignment.operator == AssignmentOperator::Assign
            && is_literal(assignment)
        {
            let text = "`if` with `=` assigns and does not compare; `===` compares".to_owned();
            self.warnings.push((assignment.span.start, text));
        }
        walk::walk_if_statement(self, statement);
    }

    fn visit_unary_expression(&mut self, unary: &UnaryExpression<'a>) {
        if unary.operator == UnaryOperator::Typeof
            && let Expression::Identifier(id) = unary.argument.get_inner_expression()
        {
            self.asked.insert(id.name.to_string());
        }
        walk::walk_unary_expression(self, unary);
    }

    fn visit_try_statement(&mut self, statement: &TryStatement<'a>) {
        if statement.handler.is_some() {
            self.tried.push(statement.block.span());
        }
        walk::walk_try_statement(self, statement);
    }

    fn visit_logical_expression(&mut self, logical: &LogicalExpression<'a>) {
        self.defaulted.extend(environment(&logical.left).map(str::to_owned));
        walk::walk_logical_expression(self, logical);
    }

    fn visit_variable_declarator(&mut self, declarator: &VariableDeclarator<'a>) {
        if let Some(Expression::CallExpression(call)) =
            declarator.init.as_ref().map(|init| init.get_inner_expression())
            && self.request(&call.callee) == Some("asyncRequest")
            && let Some(symbol) =
                declarator.id.get_binding_identifier().and_then(|id| id.symbol_id.get())
            && !self.scoping.symbol_is_mutated(symbol)
        {
            self.promises.insert(symbol);
        }
        walk::walk_variable_declarator(self, declarator);
    }

    fn visit_static_member_expression(&mut self, member: &StaticMemberExpression<'a>) {
        if OF_RESPONSES.contains(&member.property.name.as_str())
            && self.holds_promise(&member.object)
        {
            let text = format!(
                "`{}` is read from a promise, which has none; `await` is missing before http.asyncRequest()",
                member.property.name
            );
            self.warnings.push((member.span.start, text));
        }
        if member.object.is_specific_id("__ENV") {
            self.read.insert(member.property.name.to_string());
        }
        walk::walk_static_member_expression(self, member);
    }
}

/// What responses have and promises have not.
const OF_RESPONSES: &[&str] = &["body", "cookies", "error", "headers", "json", "status", "timings"];

fn is_literal(assignment: &AssignmentExpression<'_>) -> bool {
    matches!(
        assignment.right,
        Expression::NumericLiteral(_)
            | Expression::StringLiteral(_)
            | Expression::BooleanLiteral(_)
    )
}
