//! Loops that nothing ends, in the functions that virtual users run: other tools want them written,
//! and k6 calls the function again by itself.

use oxc_ast::ast::{
    ArrowFunctionBody, CallExpression, Declaration, ExportDefaultDeclarationKind, Expression,
    Function, FunctionBody, Program, Statement,
};
use oxc_ast_visit::{Visit, walk};
use oxc_semantic::ScopeFlags;

/// The first in each function that is exported.
pub fn look(program: &Program<'_>) -> Vec<(u32, String)> {
    let bodies = program.body.iter().flat_map(exported);
    let said = "this loop has no end, so that no iteration ends, and the run lasts until the graceful stop is over; \
                leave the loop out: the function is called again and again by itself, for as long as the options say";
    bodies.filter_map(endless).map(|at| (at, said.to_owned())).collect()
}

/// The bodies of exported functions.
fn exported<'b, 'a>(statement: &'b Statement<'a>) -> Vec<&'b FunctionBody<'a>> {
    match statement {
        Statement::ExportDefaultDeclaration(export) => match &export.declaration {
            ExportDefaultDeclarationKind::FunctionDeclaration(function) => {
                function.body.as_deref().into_iter().collect()
            }
            ExportDefaultDeclarationKind::ArrowFunctionExpression(function) => {
                block(&function.body).into_iter().collect()
            }
            _ => Vec::new(),
        },
        Statement::ExportDeclaration(export) => match &export.declaration {
            Declaration::FunctionDeclaration(function) => {
                function.body.as_deref().into_iter().collect()
            }
            Declaration::VariableDeclaration(variables) => {
                let inits = variables.declarations.iter().filter_map(|one| one.init.as_ref());
                inits.filter_map(of_function).collect()
            }
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

fn of_function<'b, 'a>(expression: &'b Expression<'a>) -> Option<&'b FunctionBody<'a>> {
    match expression.get_inner_expression() {
        Expression::ArrowFunctionExpression(function) => block(&function.body),
        Expression::FunctionExpression(function) => function.body.as_deref(),
        _ => None,
    }
}

fn block<'b, 'a>(body: &'b ArrowFunctionBody<'a>) -> Option<&'b FunctionBody<'a>> {
    match body {
        ArrowFunctionBody::FunctionBody(body) => Some(body),
        _ => None,
    }
}

/// A loop that nothing ends, in the body of a function; where it begins.
fn endless(body: &FunctionBody<'_>) -> Option<u32> {
    let mut loops = Loops::default();
    loops.visit_function_body(body);
    loops.found
}

#[derive(Default)]
struct Loops {
    found: Option<u32>,
}

impl Loops {
    fn judge(&mut self, at: u32, is_endless: bool, body: &Statement<'_>) {
        let mut exits = Exits::default();
        exits.visit_statement(body);
        // One that only computes is stopped by its limits, and may be meant to be.
        if is_endless && !exits.any && exits.is_of_users {
            self.found = self.found.or(Some(at));
        }
    }
}

fn is_true(expression: &Expression<'_>) -> bool {
    match expression.get_inner_expression() {
        Expression::BooleanLiteral(flag) => flag.value,
        Expression::NumericLiteral(number) => number.value != 0.0,
        _ => false,
    }
}

impl<'a> Visit<'a> for Loops {
    fn visit_while_statement(&mut self, it: &oxc_ast::ast::WhileStatement<'a>) {
        self.judge(it.span.start, is_true(&it.test), &it.body);
        walk::walk_while_statement(self, it);
    }
    fn visit_do_while_statement(&mut self, it: &oxc_ast::ast::DoWhileStatement<'a>) {
        self.judge(it.span.start, is_true(&it.test), &it.body);
        walk::walk_do_while_statement(self, it);
    }
    fn visit_for_statement(&mut self, it: &oxc_ast::ast::ForStatement<'a>) {
        self.judge(it.span.start, it.test.as_ref().is_none_or(is_true), &it.body);
        walk::walk_for_statement(self, it);
    }
    fn visit_function(&mut self, _: &Function<'a>, _: ScopeFlags) {}
    fn visit_arrow_function_expression(&mut self, _: &oxc_ast::ast::ArrowFunctionExpression<'a>) {}
}

/// Whether anything can leave a loop, and whether it does what virtual users do.
#[derive(Default)]
struct Exits {
    any: bool,
    is_of_users: bool,
}

impl<'a> Visit<'a> for Exits {
    fn visit_break_statement(&mut self, _: &oxc_ast::ast::BreakStatement<'a>) {
        self.any = true;
    }
    fn visit_return_statement(&mut self, _: &oxc_ast::ast::ReturnStatement<'a>) {
        self.any = true;
    }
    fn visit_throw_statement(&mut self, _: &oxc_ast::ast::ThrowStatement<'a>) {
        self.any = true;
    }
    fn visit_call_expression(&mut self, call: &CallExpression<'a>) {
        let ends = match call.callee.get_inner_expression() {
            Expression::Identifier(id) => {
                self.is_of_users |= ["sleep", "check", "group"].contains(&id.name.as_str());
                id.name == "fail"
            }
            Expression::StaticMemberExpression(member) => {
                self.is_of_users |= member.object.is_specific_id("http");
                ["abort", "fail"].contains(&member.property.name.as_str())
            }
            _ => false,
        };
        self.any |= ends;
        walk::walk_call_expression(self, call);
    }
    fn visit_function(&mut self, _: &Function<'a>, _: ScopeFlags) {}
    fn visit_arrow_function_expression(&mut self, _: &oxc_ast::ast::ArrowFunctionExpression<'a>) {}
}
