//! Values that are not what they look like: conditions of other languages that JavaScript takes and
//! answers with something that is always true, or always false, and results of checks that say
//! nothing. Only what is certain is said.

use oxc_ast::ast::{
    Argument, ArrowFunctionBody, BinaryExpression, CallExpression, Expression, FunctionBody,
    IfStatement, LogicalExpression, NewExpression, ObjectPropertyKind, Program, Statement,
    StaticMemberExpression, VariableDeclarator,
};
use oxc_ast_visit::{Visit, walk};
use oxc_semantic::Scoping;
use oxc_span::{GetSpan, Span};
use oxc_syntax::operator::BinaryOperator;
use oxc_syntax::symbol::SymbolId;

use super::lacking::Known;
use super::members::OF_BODIES;

type Warnings = Vec<(u32, String)>;

/// Longer expressions are cut.
const SHOWN_CHARS_MAX: usize = 60;

pub fn look(text: &str, program: &Program<'_>, scoping: &Scoping) -> Warnings {
    let known = Known::of(program, scoping);
    let mut look = Look { text, scoping, known: &known, warnings: Vec::new() };
    look.visit_program(program);
    let mut warnings = look.warnings;
    warnings.extend(rates(program, scoping));
    warnings
}

struct Look<'k, 's> {
    text: &'k str,
    scoping: &'s Scoping,
    known: &'k Known<'s>,
    warnings: Warnings,
}

fn is_relation(operator: BinaryOperator) -> bool {
    matches!(
        operator,
        BinaryOperator::LessThan
            | BinaryOperator::LessEqualThan
            | BinaryOperator::GreaterThan
            | BinaryOperator::GreaterEqualThan
    )
}

/// What a comparison of true or false with a number always gives, if it does.
fn always(operator: BinaryOperator, number: f64) -> Option<bool> {
    match operator {
        BinaryOperator::LessThan if number > 1.0 => Some(true),
        BinaryOperator::LessEqualThan if number >= 1.0 => Some(true),
        BinaryOperator::GreaterThan if number >= 1.0 => Some(false),
        BinaryOperator::GreaterEqualThan if number > 1.0 => Some(false),
        _ => None,
    }
}

impl Look<'_, '_> {
    fn warn(&mut self, offset: u32, text: String) {
        self.warnings.push((offset, text));
    }

    fn shown(&self, span: Span) -> String {
        shown(self.text, span)
    }

    /// `200 <= x < 300`
    fn chain(&mut self, outer: &BinaryExpression<'_>) {
        // In brackets it is meant.
        let Expression::BinaryExpression(inner) = &outer.left else { return };
        if !is_relation(outer.operator) || !is_relation(inner.operator) {
            return;
        }
        let whole = self.shown(outer.span);
        // `x >= 200 < 300` has the value in front.
        let subject = match inner.right.get_inner_expression() {
            Expression::NumericLiteral(_) => &inner.left,
            _ => &inner.right,
        };
        let (subject, right) = (self.shown(subject.span()), self.shown(outer.right.span()));
        let number = match outer.right.get_inner_expression() {
            Expression::NumericLiteral(number) => always(outer.operator, number.value),
            _ => None,
        };
        let always = number.map_or(String::new(), |is| format!(", which is always {is}"));
        let said = format!(
            "`{whole}` compares true or false with {right}{always}; write `{} && {subject} {} {right}`",
            self.shown(inner.span),
            outer.operator.as_str()
        );
        self.warn(outer.span.start, said);
    }

    /// `x in [200, 201]`
    fn within(&mut self, asked: &BinaryExpression<'_>) {
        if asked.operator == BinaryOperator::In
            && let Expression::ArrayExpression(list) = asked.right.get_inner_expression()
        {
            let (left, right) = (self.shown(asked.left.span()), self.shown(list.span));
            let said = format!(
                "`{}` asks whether the list has that index, not that value; write `{right}.includes({left})`",
                self.shown(asked.span)
            );
            self.warn(asked.span.start, said);
        }
    }

    /// `status == 200 | 201`
    fn bits(&mut self, joined: &BinaryExpression<'_>) {
        if joined.operator != BinaryOperator::BitwiseOR {
            return;
        }
        let Expression::BinaryExpression(compared) = &joined.left else { return };
        let Expression::NumericLiteral(number) = joined.right.get_inner_expression() else {
            return;
        };
        if !compared.operator.is_equality() || number.value == 0.0 {
            return;
        }
        let said = format!(
            "`{}` is always true, because `|` joins the bits of numbers; compare once more: `{} || {} {} {}`",
            self.shown(joined.span),
            self.shown(compared.span),
            self.shown(compared.left.span()),
            compared.operator.as_str(),
            number.value
        );
        self.warn(joined.span.start, said);
    }

    fn check(&mut self, call: &CallExpression<'_>) {
        if !self.known.is_check(&call.callee) {
            return;
        }
        let Some(Argument::ObjectExpression(sets)) = call.arguments.get(1) else { return };
        for property in &sets.properties {
            let ObjectPropertyKind::ObjectProperty(property) = property else { continue };
            let mut results = Vec::new();
            match property.value.get_inner_expression() {
                Expression::ArrowFunctionExpression(function) => match &function.body {
                    ArrowFunctionBody::FunctionBody(body) => results.extend(returned(body)),
                    other => results.extend(other.as_expression()),
                },
                Expression::FunctionExpression(function) => {
                    results.extend(function.body.as_ref().into_iter().flat_map(|it| returned(it)));
                }
                _ => {}
            }
            let name = property.key.static_name().unwrap_or_default().into_owned();
            results.into_iter().for_each(|result| self.result(&name, result));
        }
    }

    /// What a check is given back.
    fn result(&mut self, name: &str, result: &Expression<'_>) {
        let (at, whole) = (result.span().start, self.shown(result.span()));
        match result.get_inner_expression() {
            Expression::LogicalExpression(both) => {
                self.result(name, &both.left);
                self.result(name, &both.right);
            }
            Expression::CallExpression(call) => {
                if let Some(said) = self.position(&whole, call) {
                    self.warn(at, format!("the check `{name}`: {said}"));
                }
            }
            Expression::StaticMemberExpression(member) if self.is_function(member) => {
                self.warn(
                    at,
                    format!(
                        "the check `{name}`: `{whole}` is a function, which counts as true; with brackets it is \
                         called: {whole}(...)"
                    ),
                );
            }
            Expression::Identifier(_) => {
                let symbol = self.known.symbol(result);
                if symbol.is_some_and(|symbol| self.scoping.symbol_flags(symbol).is_function()) {
                    self.warn(
                        at,
                        format!(
                            "the check `{name}`: `{whole}` is a function, which counts as true; with brackets it is \
                             called: {whole}(...)"
                        ),
                    );
                }
            }
            Expression::ArrowFunctionExpression(_) | Expression::FunctionExpression(_) => self.warn(
                at,
                format!(
                    "the check `{name}` gives back a function, which counts as true; write what is to hold in its place"
                ),
            ),
            Expression::ArrayExpression(_) => self.warn(
                at,
                format!("the check `{name}` gives back a list, which always counts as true"),
            ),
            _ => {}
        }
    }

    /// `list.indexOf(x)`, which is -1 where it finds nothing.
    fn position(&self, whole: &str, call: &CallExpression<'_>) -> Option<String> {
        let Expression::StaticMemberExpression(member) = call.callee.get_inner_expression() else {
            return None;
        };
        let method = member.property.name.as_str();
        let is_body = self.of_response(&member.object) == Some("body");
        let known = matches!(method, "indexOf" | "lastIndexOf" | "findIndex")
            || (method == "search" && is_body);
        if !known {
            return None;
        }
        let instead = match (method, call.arguments.first()) {
            ("indexOf" | "lastIndexOf", Some(wanted)) => {
                let (list, wanted) = (self.shown(member.object.span()), self.shown(wanted.span()));
                format!("write `{list}.includes({wanted})`")
            }
            _ => format!("write `{whole} !== -1`"),
        };
        Some(format!(
            "`{whole}` is -1, which counts as true, where nothing is found, and 0, which counts as false, at the \
             beginning; {instead}"
        ))
    }

    /// A method that everybody has who has the object, and that nobody calls.
    fn is_function(&self, member: &StaticMemberExpression<'_>) -> bool {
        let name = member.property.name.as_str();
        let of_list = ["includes", "some", "every", "find", "indexOf"].contains(&name)
            && matches!(member.object.get_inner_expression(), Expression::ArrayExpression(_));
        let of_body = self.of_response(&member.object) == Some("body")
            && name != "length"
            && OF_BODIES.contains(&name);
        let of_response = name == "json" && self.known.is_response(&member.object);
        of_list || of_body || of_response
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

    /// `response.cookies.session.value`
    fn cookie(&mut self, member: &StaticMemberExpression<'_>) {
        const OF_COOKIES: &[&str] = &["value", "domain", "path", "expires", "max_age", "secure"];
        let field = member.property.name.as_str();
        if OF_COOKIES.contains(&field)
            && let Expression::StaticMemberExpression(cookie) = member.object.get_inner_expression()
            && self.of_response(&cookie.object) == Some("cookies")
        {
            let name = cookie.property.name.as_str();
            let said = format!(
                "`cookies.{name}` of a response is a list, because a name may come several times; write \
                 cookies.{name}[0].{field}"
            );
            self.warn(member.span.start, said);
        }
    }
}

/// As it is written, in one line.
fn shown(text: &str, span: Span) -> String {
    let text = &text[span.start as usize..span.end as usize];
    let one_line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match one_line.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((at, _)) => format!("{}...", &one_line[..at]),
        None => one_line,
    }
}

/// What the statements of a function give back, without the functions in it.
fn returned<'b, 'a>(body: &'b FunctionBody<'a>) -> Vec<&'b Expression<'a>> {
    // A function of several statements has its last word at its end; others may be guards.
    match body.statements.last() {
        Some(Statement::ReturnStatement(last)) => last.argument.iter().collect(),
        _ => Vec::new(),
    }
}

impl<'a> Visit<'a> for Look<'_, '_> {
    fn visit_binary_expression(&mut self, binary: &BinaryExpression<'a>) {
        self.chain(binary);
        self.within(binary);
        self.bits(binary);
        walk::walk_binary_expression(self, binary);
    }

    fn visit_call_expression(&mut self, call: &CallExpression<'a>) {
        self.check(call);
        walk::walk_call_expression(self, call);
    }

    fn visit_static_member_expression(&mut self, member: &StaticMemberExpression<'a>) {
        self.cookie(member);
        walk::walk_static_member_expression(self, member);
    }
}

/// Rates to which nothing but `true` is ever added: they are 100 %, whatever happens.
fn rates(program: &Program<'_>, scoping: &Scoping) -> Warnings {
    let mut made = Rates { scoping, made: Vec::new(), added: Vec::new(), conditions: 0 };
    made.visit_program(program);
    let mut warnings = Vec::new();
    for (symbol, name) in &made.made {
        let uses = scoping.get_resolved_references(*symbol).count();
        let added: Vec<_> = made.added.iter().filter(|(of, ..)| of == symbol).collect();
        let all_true = added.iter().all(|(_, _, is_true)| *is_true);
        // Whoever hands it on may add more.
        if let Some((_, at, _)) = added.first().filter(|_| all_true && added.len() == uses) {
            warnings.push((
                *at,
                format!(
                    "nothing but true is ever added to the rate `{name}`, so that it is 100 % whatever happens; add \
                     what is asked each time: {name}.add(response.status !== 200)"
                ),
            ));
        }
    }
    warnings
}

struct Rates<'s> {
    scoping: &'s Scoping,
    made: Vec<(SymbolId, String)>,
    /// The rate, the place, and whether it was `true` under a condition.
    added: Vec<(SymbolId, u32, bool)>,
    /// So many conditions are around the place.
    conditions: usize,
}

impl<'a> Visit<'a> for Rates<'_> {
    fn visit_if_statement(&mut self, statement: &IfStatement<'a>) {
        self.under_condition(|look| walk::walk_if_statement(look, statement));
    }

    fn visit_logical_expression(&mut self, logical: &LogicalExpression<'a>) {
        self.under_condition(|look| walk::walk_logical_expression(look, logical));
    }

    fn visit_variable_declarator(&mut self, declarator: &VariableDeclarator<'a>) {
        if let Some(Expression::NewExpression(new)) = &declarator.init
            && is_rate(new)
            && let Some(id) = declarator.id.get_binding_identifier()
            && let Some(symbol) = id.symbol_id.get()
        {
            self.made.push((symbol, id.name.to_string()));
        }
        walk::walk_variable_declarator(self, declarator);
    }

    fn visit_call_expression(&mut self, call: &CallExpression<'a>) {
        if let Expression::StaticMemberExpression(member) = call.callee.get_inner_expression()
            && member.property.name == "add"
            && let Expression::Identifier(id) = member.object.get_inner_expression()
            && let Some(reference) = id.reference_id.get()
            && let Some(symbol) = self.scoping.get_reference(reference).symbol_id()
        {
            let is_true = match call.arguments.first() {
                Some(Argument::BooleanLiteral(flag)) => flag.value,
                Some(Argument::NumericLiteral(number)) => number.value != 0.0,
                _ => false,
            };
            // Without a condition it is meant: there is nothing that would have to be added else.
            self.added.push((symbol, call.span.start, is_true && self.conditions > 0));
        }
        walk::walk_call_expression(self, call);
    }
}

impl Rates<'_> {
    fn under_condition(&mut self, walk: impl FnOnce(&mut Self)) {
        self.conditions += 1;
        walk(self);
        self.conditions -= 1;
    }
}

fn is_rate(new: &NewExpression<'_>) -> bool {
    new.callee.is_specific_id("Rate")
}
