//! What a syntax tree tells about a file: which modules it asks for and where, whether it is an
//! ES module or a CommonJS file, and which names a CommonJS file exports.
//!
//! The names of a CommonJS file are found by looking, not by running: assignments to `exports.x`
//! and `module.exports`, with the habits of compilers and bundlers. A name too many is exported
//! as `undefined` and does no harm, so shadowing is not examined.

use std::collections::{BTreeSet, HashMap, HashSet};

use oxc_ast::ast::{
    Argument, AssignmentExpression, AssignmentTarget, AwaitExpression, CallExpression, Decorator,
    Expression, ForOfStatement, Function, ImportDeclarationSpecifier, ImportExpression, ImportMeta,
    ObjectExpression, ObjectPropertyKind, Program, PropertyDefinition, ReturnStatement, Statement,
    StaticBlock, StaticMemberExpression, VariableDeclarator,
};
use oxc_ast::ast::{ArrowFunctionExpression, MemberExpression};
use oxc_ast_visit::{Visit, walk};
use oxc_syntax::scope::ScopeFlags;

/// A module that a file asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub specifier: String,
    /// Byte offset of the specifier in the file as written.
    pub offset: u32,
    /// True for `import … from` and `export … from`, which are resolved before anything runs;
    /// false for `import()` and `require()`.
    pub is_static: bool,
    /// The names taken from it.
    pub names: BTreeSet<String>,
    /// Of these, the ones that it must have: `import { a }`, not `all.a`.
    pub required: BTreeSet<String>,
}

#[derive(Debug, Default)]
pub struct Facts {
    pub requests: Vec<Request>,
    /// Has `import`, `export`, `import.meta` or a top-level `await`.
    pub is_esm: bool,
    /// Names an ES module exports itself; for re-exports from CommonJS.
    pub esm_exports: BTreeSet<String>,
    /// `export * from`: it exports more than can be seen in it.
    pub exports_all_of_another: bool,
    /// Names assigned to `exports`.
    pub cjs_exports: BTreeSet<String>,
    /// Specifiers of files whose exports are passed on by `module.exports = require(…)`.
    pub cjs_reexports: Vec<String>,
    /// The first `return` outside of a function: allowed in CommonJS, an error in an ES module.
    pub top_level_return: Option<u32>,
    /// The first `exports.x = …` that is a statement of the file itself.
    pub top_level_exports: Option<u32>,
    pub decorator: Option<u32>,
}

pub fn gather(program: &Program<'_>) -> Facts {
    let mut gatherer = Gatherer::default();
    for statement in &program.body {
        gatherer.module_statement(statement);
    }
    gatherer.visit_program(program);
    gatherer.finish()
}

#[derive(Default)]
struct Gatherer {
    facts: Facts,
    function_depth: u32,
    /// Local name of `import * as x` to the index of its request.
    namespaces: HashMap<String, usize>,
    /// Variables that became `module.exports`.
    exported_variables: HashSet<String>,
    /// Names and re-exports put on a variable, by a literal or by assignment.
    variable_members: HashMap<String, (BTreeSet<String>, Vec<String>)>,
}

impl Gatherer {
    fn finish(mut self) -> Facts {
        for variable in &self.exported_variables {
            if let Some((names, reexports)) = self.variable_members.remove(variable) {
                self.facts.cjs_exports.extend(names);
                self.facts.cjs_reexports.extend(reexports);
            }
        }
        self.facts.cjs_exports.remove("default");
        self.facts
    }

    fn request(&mut self, specifier: &str, offset: u32, is_static: bool, names: BTreeSet<String>) {
        let specifier = specifier.to_owned();
        let required = names.clone();
        self.facts.requests.push(Request { specifier, offset, is_static, names, required });
    }

    /// Imports and exports stand only at the top of the tree; they are taken first, because a
    /// use of `x.name` may come before `import * as x`.
    fn module_statement(&mut self, statement: &Statement<'_>) {
        match statement {
            Statement::ImportDeclaration(import) => {
                let mut names = BTreeSet::new();
                for specifier in import.specifiers.iter().flatten() {
                    match specifier {
                        ImportDeclarationSpecifier::ImportSpecifier(specifier) => {
                            names.insert(specifier.imported.name().to_string());
                        }
                        ImportDeclarationSpecifier::ImportDefaultSpecifier(_) => {
                            names.insert("default".to_owned());
                        }
                        ImportDeclarationSpecifier::ImportNamespaceSpecifier(specifier) => {
                            let at = self.facts.requests.len();
                            self.namespaces.insert(specifier.local.name.to_string(), at);
                        }
                    }
                }
                self.request(&import.source.value, import.source.span.start, true, names);
            }
            Statement::ExportFromDeclaration(export) => {
                let taken = export.specifiers.iter().map(|s| s.local.name().to_string()).collect();
                let given = export.specifiers.iter().map(|s| s.exported.name().to_string());
                self.facts.esm_exports.extend(given);
                self.request(&export.source.value, export.source.span.start, true, taken);
            }
            Statement::ExportAllDeclaration(export) => {
                match &export.exported {
                    Some(name) => {
                        self.facts.esm_exports.insert(name.name().to_string());
                    }
                    None => self.facts.exports_all_of_another = true,
                }
                let offset = export.source.span.start;
                self.request(&export.source.value, offset, true, BTreeSet::new());
            }
            Statement::ExportNamedDeclaration(export) => {
                let given = export.specifiers.iter().map(|s| s.exported.name().to_string());
                self.facts.esm_exports.extend(given);
            }
            Statement::ExportDeclaration(export) => {
                let names = &mut self.facts.esm_exports;
                let declaration = &export.declaration;
                if let Some(id) = declaration.id() {
                    names.insert(id.name.to_string());
                } else if let oxc_ast::ast::Declaration::VariableDeclaration(list) = declaration {
                    for declarator in &list.declarations {
                        let bound = declarator.id.get_binding_identifiers();
                        names.extend(bound.iter().map(|id| id.name.to_string()));
                    }
                }
            }
            Statement::ExportDefaultDeclaration(_) => {}
            Statement::ExpressionStatement(statement) => {
                if let Expression::AssignmentExpression(assignment) = &statement.expression
                    && (is_exports_target(&assignment.left)
                        || member_of_exports(&assignment.left).is_some())
                {
                    let start = statement.span.start;
                    self.facts.top_level_exports.get_or_insert(start);
                }
                return;
            }
            _ => return,
        }
        self.facts.is_esm = true;
    }

    /// `module.exports = value` in any of its forms.
    fn exported_value(&mut self, value: &Expression<'_>) {
        match value.get_inner_expression() {
            Expression::ObjectExpression(object) => {
                let (names, reexports) = members_of(object);
                self.facts.cjs_exports.extend(names);
                self.facts.cjs_reexports.extend(reexports);
            }
            Expression::Identifier(variable) => {
                self.exported_variables.insert(variable.name.to_string());
            }
            // `exports = module.exports = value`: the inner assignment is visited by itself.
            other => self.facts.cjs_reexports.extend(required(other)),
        }
    }

    /// `Object.defineProperty(exports, "x", …)`, `Object.assign(exports, {…})` and the helpers
    /// that TypeScript writes for `export *`.
    fn exporting_call(&mut self, call: &CallExpression<'_>) {
        let arguments: Vec<&Expression<'_>> =
            call.arguments.iter().filter_map(Argument::as_expression).collect();
        if call.callee.is_specific_member_access("Object", "defineProperty") {
            if let [object, Expression::StringLiteral(name), ..] = arguments[..]
                && is_exports(object)
            {
                self.facts.cjs_exports.insert(name.value.to_string());
            }
        } else if call.callee.is_specific_member_access("Object", "assign") {
            if let [object, sources @ ..] = &arguments[..]
                && is_exports(object)
            {
                for source in sources {
                    self.exported_value(source);
                }
            }
        } else if let Some(name) = called_name(&call.callee)
            && ["__exportStar", "__export"].contains(&name)
            && let [source, ..] = arguments[..]
        {
            self.facts.cjs_reexports.extend(required(source));
        }
    }
}

impl<'a> Visit<'a> for Gatherer {
    fn visit_function(&mut self, function: &Function<'a>, flags: ScopeFlags) {
        self.function_depth += 1;
        walk::walk_function(self, function, flags);
        self.function_depth -= 1;
    }

    fn visit_arrow_function_expression(&mut self, function: &ArrowFunctionExpression<'a>) {
        self.function_depth += 1;
        walk::walk_arrow_function_expression(self, function);
        self.function_depth -= 1;
    }

    fn visit_static_block(&mut self, block: &StaticBlock<'a>) {
        self.function_depth += 1;
        walk::walk_static_block(self, block);
        self.function_depth -= 1;
    }

    fn visit_property_definition(&mut self, definition: &PropertyDefinition<'a>) {
        self.function_depth += 1;
        walk::walk_property_definition(self, definition);
        self.function_depth -= 1;
    }

    fn visit_await_expression(&mut self, expression: &AwaitExpression<'a>) {
        self.facts.is_esm |= self.function_depth == 0;
        walk::walk_await_expression(self, expression);
    }

    fn visit_for_of_statement(&mut self, statement: &ForOfStatement<'a>) {
        self.facts.is_esm |= statement.r#await && self.function_depth == 0;
        walk::walk_for_of_statement(self, statement);
    }

    fn visit_import_meta(&mut self, _: &ImportMeta) {
        self.facts.is_esm = true;
    }

    fn visit_return_statement(&mut self, statement: &ReturnStatement<'a>) {
        if self.function_depth == 0 {
            self.facts.top_level_return.get_or_insert(statement.span.start);
        }
        walk::walk_return_statement(self, statement);
    }

    fn visit_decorator(&mut self, decorator: &Decorator<'a>) {
        self.facts.decorator.get_or_insert(decorator.span.start);
        walk::walk_decorator(self, decorator);
    }

    fn visit_import_expression(&mut self, import: &ImportExpression<'a>) {
        if let Expression::StringLiteral(specifier) = import.source.get_inner_expression() {
            self.request(&specifier.value, specifier.span.start, false, BTreeSet::new());
        }
        walk::walk_import_expression(self, import);
    }

    fn visit_call_expression(&mut self, call: &CallExpression<'a>) {
        if call.callee.is_specific_id("require")
            && let Some(Argument::StringLiteral(specifier)) = call.arguments.first()
        {
            self.request(&specifier.value, specifier.span.start, false, BTreeSet::new());
        }
        self.exporting_call(call);
        walk::walk_call_expression(self, call);
    }

    fn visit_static_member_expression(&mut self, member: &StaticMemberExpression<'a>) {
        if let Expression::Identifier(object) = &member.object
            && let Some(&at) = self.namespaces.get(object.name.as_str())
        {
            self.facts.requests[at].names.insert(member.property.name.to_string());
        }
        walk::walk_static_member_expression(self, member);
    }

    fn visit_variable_declarator(&mut self, declarator: &VariableDeclarator<'a>) {
        if let Some(name) = declarator.id.get_identifier_name()
            && let Some(init) = &declarator.init
        {
            let (names, reexports) = match init.get_inner_expression() {
                Expression::ObjectExpression(object) => members_of(object),
                other => (BTreeSet::new(), required(other).into_iter().collect()),
            };
            let members = self.variable_members.entry(name.to_string()).or_default();
            members.0.extend(names);
            members.1.extend(reexports);
        }
        walk::walk_variable_declarator(self, declarator);
    }

    fn visit_assignment_expression(&mut self, assignment: &AssignmentExpression<'a>) {
        if is_exports_target(&assignment.left) {
            self.exported_value(&assignment.right);
        } else if let Some(name) = member_of_exports(&assignment.left) {
            self.facts.cjs_exports.insert(name);
        } else if let Some(member) = assignment.left.as_member_expression()
            && let Expression::Identifier(object) = member.object()
            && let Some(name) = member.static_property_name()
        {
            let members = self.variable_members.entry(object.name.to_string()).or_default();
            members.0.insert(name.to_owned());
        }
        walk::walk_assignment_expression(self, assignment);
    }
}

/// `exports` or `module.exports`.
fn is_exports(expression: &Expression<'_>) -> bool {
    expression.is_specific_id("exports")
        || expression.is_specific_member_access("module", "exports")
}

fn is_exports_target(target: &AssignmentTarget<'_>) -> bool {
    match target {
        AssignmentTarget::AssignmentTargetIdentifier(id) => id.name == "exports",
        other => other
            .as_member_expression()
            .is_some_and(|member| member.is_specific_member_access("module", "exports")),
    }
}

/// The `x` of `exports.x`, `exports["x"]` and `module.exports.x`.
fn member_of_exports(target: &AssignmentTarget<'_>) -> Option<String> {
    let member: &MemberExpression<'_> = target.as_member_expression()?;
    is_exports(member.object()).then(|| member.static_property_name().map(str::to_owned))?
}

/// Keys of an object literal, and the files whose exports are spread into it.
fn members_of(object: &ObjectExpression<'_>) -> (BTreeSet<String>, Vec<String>) {
    let mut names = BTreeSet::new();
    let mut reexports = Vec::new();
    for property in &object.properties {
        match property {
            ObjectPropertyKind::ObjectProperty(property) if !property.computed => {
                names.extend(property.key.static_name().map(|name| name.into_owned()));
            }
            ObjectPropertyKind::ObjectProperty(_) => {}
            ObjectPropertyKind::SpreadProperty(spread) => {
                reexports.extend(required(&spread.argument));
            }
        }
    }
    (names, reexports)
}

/// The specifier of `require("specifier")`.
fn required(expression: &Expression<'_>) -> Option<String> {
    let Expression::CallExpression(call) = expression.get_inner_expression() else {
        return None;
    };
    match call.arguments.first() {
        Some(Argument::StringLiteral(specifier)) if call.callee.is_specific_id("require") => {
            Some(specifier.value.to_string())
        }
        _ => None,
    }
}

/// The last name of what is called: `f` of `f()`, `tslib.f()` and `(0, tslib.f)()`.
fn called_name<'t>(callee: &'t Expression<'_>) -> Option<&'t str> {
    match callee.get_inner_expression() {
        Expression::Identifier(id) => Some(id.name.as_str()),
        Expression::SequenceExpression(list) => called_name(list.expressions.last()?),
        other => other.as_member_expression()?.static_property_name(),
    }
}
