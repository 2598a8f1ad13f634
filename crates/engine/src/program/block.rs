//! Lists of steps: in sequence, or as a graph whose steps start when what they need is done (R14).

use plan::expr::Condition;
use plan::{Action, Comparison, Span, Step};
use regex::bytes::Regex;

use super::CompileError;
use super::request::RequestProgram;
use super::workflow::Scope;
use crate::text::{Names, Text};
use crate::vars::Vars;

#[derive(Default)]
pub struct Block {
    pub steps: Vec<StepProgram>,
    pub order: Order,
}

/// When each step of a block may start.
#[derive(Default, Debug, PartialEq, Eq)]
pub enum Order {
    /// Each after the one above.
    #[default]
    Sequence,
    /// Numbers of the steps that must be done first; empty: at once.
    Graph(Vec<Vec<usize>>),
}

pub struct StepProgram {
    pub when: Option<Guard>,
    pub op: Op,
}

pub enum Op {
    Request(Box<RequestProgram>),
    Think(Span),
    Set(Vec<(usize, Text)>),
    /// Number of the custom metric, and its value.
    Record(Vec<(usize, Text)>),
    Group(Block),
    Repeat {
        times: u64,
        until: Option<Guard>,
        body: Block,
    },
    /// Weights are summed up: a draw below a sum takes that branch.
    Choose {
        branches: Vec<(u32, Block)>,
    },
}

impl Block {
    pub(super) fn compile(
        steps: &[Step],
        concurrent: bool,
        scope: &mut Scope<'_, '_>,
    ) -> Result<Block, CompileError> {
        let order = order(steps, concurrent);
        let mut compiled = Vec::with_capacity(steps.len());
        for step in steps {
            let when = step.when.as_ref().map(|condition| Guard::compile(condition, scope));
            scope.when.extend(step.when_text.clone());
            let op = Op::compile(step, scope)?;
            scope.when.truncate(scope.when.len() - usize::from(step.when_text.is_some()));
            compiled.push(StepProgram { when, op });
        }
        Ok(Block { steps: compiled, order })
    }

    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    pub fn each_request(&mut self, visit: &mut dyn FnMut(&mut RequestProgram)) {
        for step in &mut self.steps {
            match &mut step.op {
                Op::Request(request) => visit(request),
                Op::Group(block) | Op::Repeat { body: block, .. } => block.each_request(visit),
                Op::Choose { branches } => {
                    branches.iter_mut().for_each(|(_, block)| block.each_request(visit));
                }
                Op::Think(_) | Op::Set(_) | Op::Record(_) => {}
            }
        }
    }
}

/// A plain list needs no graph, and most lists are plain.
fn order(steps: &[Step], concurrent: bool) -> Order {
    if !concurrent && steps.iter().all(|step| step.needs.is_none()) {
        return Order::Sequence;
    }
    let number = |name: &String| steps.iter().position(|step| step.name == *name);
    let needs = steps.iter().enumerate().map(|(index, step)| match &step.needs {
        Some(names) => names.iter().filter_map(number).collect(),
        None if concurrent || index == 0 => Vec::new(),
        None => vec![index - 1],
    });
    Order::Graph(needs.collect())
}

impl Op {
    fn compile(step: &Step, scope: &mut Scope<'_, '_>) -> Result<Op, CompileError> {
        Ok(match &step.action {
            Action::Request(request) => {
                Op::Request(Box::new(RequestProgram::compile(&step.name, request, scope)?))
            }
            Action::Think(span) => Op::Think(*span),
            Action::Set(values) => {
                let mut compiled = Vec::new();
                for (name, template) in values {
                    let text = Text::compile(template, scope);
                    compiled.push((scope.slot(name), text));
                }
                Op::Set(compiled)
            }
            Action::Record(records) => Op::Record(compile_records(records, scope)),
            Action::Group { steps, concurrent } => {
                Op::Group(Block::compile(steps, *concurrent, scope)?)
            }
            Action::Repeat { times, until, steps } => Op::Repeat {
                times: *times,
                until: until.as_ref().map(|condition| Guard::compile(condition, scope)),
                body: Block::compile(steps, false, scope)?,
            },
            Action::Choose(branches) => {
                let mut sum = 0;
                let mut compiled = Vec::new();
                for branch in branches {
                    sum += branch.weight;
                    compiled.push((sum, Block::compile(&branch.steps, false, scope)?));
                }
                Op::Choose { branches: compiled }
            }
        })
    }
}

pub(super) fn compile_records(
    records: &[plan::Record],
    scope: &mut Scope<'_, '_>,
) -> Vec<(usize, Text)> {
    let mut compiled = Vec::new();
    for record in records {
        let metrics = &scope.compiler.layout.metrics;
        // The plan's check has made sure that the metric is declared.
        if let Some(metric) = metrics.iter().position(|known| known.name == record.metric) {
            compiled.push((metric, Text::compile(&record.value, scope)));
        }
    }
    compiled
}

/// A condition, compiled.
pub enum Guard {
    All(Vec<Guard>),
    Any(Vec<Guard>),
    Not(Box<Guard>),
    Compare { left: Text, op: Comparison, right: Text },
    Contains { left: Text, right: Text },
    Matches { left: Text, pattern: Option<Regex> },
    Truthy(Text),
}

impl Guard {
    fn compile(condition: &Condition, scope: &mut Scope<'_, '_>) -> Guard {
        let mut text = |template| Text::compile(template, scope);
        match condition {
            Condition::Compare { left, op, right } => {
                Guard::Compare { left: text(left), op: *op, right: text(right) }
            }
            Condition::Contains { left, right } => {
                Guard::Contains { left: text(left), right: text(right) }
            }
            Condition::Matches { left, pattern } => {
                Guard::Matches { left: text(left), pattern: Regex::new(pattern).ok() }
            }
            Condition::Truthy(template) => Guard::Truthy(text(template)),
            Condition::All(list) => {
                Guard::All(list.iter().map(|one| Guard::compile(one, scope)).collect())
            }
            Condition::Any(list) => {
                Guard::Any(list.iter().map(|one| Guard::compile(one, scope)).collect())
            }
            Condition::Not(inner) => Guard::Not(Box::new(Guard::compile(inner, scope))),
        }
    }

    pub fn holds(&self, vars: &Vars) -> bool {
        match self {
            Guard::All(list) => list.iter().all(|one| one.holds(vars)),
            Guard::Any(list) => list.iter().any(|one| one.holds(vars)),
            Guard::Not(inner) => !inner.holds(vars),
            Guard::Compare { left, op, right } => {
                let (left, right) = (left.to_bytes(vars), right.to_bytes(vars));
                match (number(&left), number(&right)) {
                    (Some(left), Some(right)) => op.holds(left, right),
                    _ => op.holds(left, right),
                }
            }
            Guard::Contains { left, right } => {
                memchr::memmem::find(&left.to_bytes(vars), &right.to_bytes(vars)).is_some()
            }
            Guard::Matches { left, pattern } => {
                pattern.as_ref().is_some_and(|pattern| pattern.is_match(&left.to_bytes(vars)))
            }
            Guard::Truthy(text) => {
                !matches!(text.to_bytes(vars).trim_ascii(), b"" | b"false" | b"0" | b"null")
            }
        }
    }
}

pub(crate) fn number(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.trim().parse().ok()
}
