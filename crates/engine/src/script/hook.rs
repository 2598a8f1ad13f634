//! `setup()` and `teardown()`: once, on the first core, within their time.

use std::rc::Rc;
use std::time::Duration;

use script::host::Phase;
use script::log::{Level, Line};
use script::thrown::ThrownKind;
use script::vu::Returned;
use stats::ScriptFailure;

use super::ScriptUser;
use crate::core::Hook;
use crate::shard::ShardContext;

/// The variable under which what `setup()` returned is handed on.
pub const SETUP_DATA: &str = "setup_data";

/// Why a setup or a teardown did not come to its end.
#[derive(Debug, Clone)]
pub struct HookError {
    /// Of a script; a plan's steps have only words.
    pub failure: Option<ScriptFailure>,
    pub message: String,
}

impl HookError {
    pub fn steps(message: String) -> HookError {
        HookError { failure: None, message }
    }

    pub fn stopped() -> HookError {
        HookError::steps("stopped".to_owned())
    }
}

/// What `setup()` returned, as JSON.
pub async fn run_aside(
    context: &Rc<ShardContext>,
    what: Hook,
) -> Result<Option<String>, HookError> {
    let run = context.script.as_ref().map(|side| side.run.clone());
    let Some(run) = run else { return Ok(None) };
    let (name, phase, limit, timeout) = match what {
        Hook::Setup => ("setup", Phase::Setup, run.setup_timeout, ScriptFailure::SetupTimeout),
        Hook::Teardown => {
            ("teardown", Phase::Teardown, run.teardown_timeout, ScriptFailure::TeardownTimeout)
        }
    };
    let fail = |failure, message: String| Err(HookError { failure: Some(failure), message });
    let user = match ScriptUser::hook(context) {
        Ok(user) => user,
        Err(error) => return fail(ScriptFailure::Exception, error),
    };
    if let Err(thrown) = user.init().await {
        return fail(ScriptFailure::Exception, thrown.full());
    }
    let program = context.workflow();
    let stage = match what {
        Hook::Setup => program.setup_stage,
        Hook::Teardown => program.teardown_stage,
    };
    let call = user.call(name, phase, context, stage);
    match tokio::time::timeout(limit, call).await {
        Ok(Ok(Some(Returned::Json(json)))) => Ok(Some(json)),
        Ok(Ok(_)) => Ok(None),
        Ok(Err(thrown)) => {
            let failure = match thrown.kind {
                ThrownKind::Abort => ScriptFailure::Abort,
                _ => ScriptFailure::Exception,
            };
            // What ends the whole run is said by whoever ends it.
            if thrown.kind == ThrownKind::Exception {
                let line = Line::new(Level::Error, thrown.full()).with("hint", "script exception");
                (run.logger)(line);
            }
            fail(failure, thrown.in_one_line())
        }
        Err(_) => {
            user.cancel();
            user.record_traffic();
            let message = format!("{name}() took longer than {}", shown(limit));
            (run.logger)(Line::new(Level::Error, message.as_str()));
            fail(timeout, message)
        }
    }
}

fn shown(limit: Duration) -> String {
    format!("{} s", limit.as_secs_f64())
}
