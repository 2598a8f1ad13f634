//! A virtual user of either kind: one that works through a plan's steps, or one that runs a script.

use fence::Moment;
use std::rc::Rc;
use std::time::Duration;

use plan::Span;

use crate::script::ScriptUser;
use crate::shard::ShardContext;
use crate::vu::{Iterated, Vu};

#[derive(Clone)]
pub enum User {
    Plan(Rc<Vu>),
    Script(Rc<ScriptUser>),
}

impl User {
    /// `index`: number within the workflow, from 0.
    pub fn new(context: &Rc<ShardContext>, index: u64) -> Result<User, String> {
        match context.script {
            None => Ok(User::Plan(Vu::new(context.clone(), index))),
            Some(_) => ScriptUser::new(context, index).map(User::Script),
        }
    }

    /// Before the first iteration. False: it must not go on.
    pub async fn begin(&self) -> bool {
        match self {
            User::Plan(vu) => vu.begin().await,
            User::Script(user) => user.begin().await,
        }
    }

    /// Why it must not go on, after [`User::begin`] has said so.
    pub fn why_broken(&self) -> String {
        match self {
            User::Plan(_) => "the setup of a virtual user failed".to_owned(),
            User::Script(user) => user.why_broken(),
        }
    }

    /// `intended`: when an open model wanted it to start.
    pub async fn iterate(
        &self,
        context: &ShardContext,
        number: u64,
        intended: Option<Moment>,
    ) -> Iterated {
        match self {
            User::Plan(vu) => vu.iterate(number, intended).await,
            User::Script(user) => user.iterate(context, number, intended).await,
        }
    }

    /// After the last iteration.
    pub async fn end(&self) {
        if let User::Plan(vu) = self {
            vu.end().await;
        }
    }

    pub fn draw(&self, span: Span) -> Duration {
        match self {
            User::Plan(vu) => vu.draw(span),
            // Scripts say themselves how long they wait.
            User::Script(_) => span.min,
        }
    }
}
