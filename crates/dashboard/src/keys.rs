//! Which key means what.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use stats::RunState;

use crate::Command;

/// One press of `+` or `-`.
const SCALE_STEP: f64 = 0.1;

pub(crate) fn command(key: KeyEvent, state: RunState) -> Option<Command> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('c') if control => Some(Command::Interrupt),
        KeyCode::Char(_) if control => None,
        KeyCode::Char('p') if state == RunState::Paused => Some(Command::Resume),
        KeyCode::Char('p') => Some(Command::Pause),
        KeyCode::Char('+' | '=') => Some(Command::Scale(1.0 + SCALE_STEP)),
        KeyCode::Char('-') => Some(Command::Scale(1.0 - SCALE_STEP)),
        KeyCode::Char('q' | 's') => Some(Command::Stop),
        _ => None,
    }
}

/// Where the run that is shown takes place; it decides what its keys mean.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Runs {
    /// In this process: Ctrl-C ends it.
    #[default]
    Here,
    /// On a fleet: it goes on without the view.
    Elsewhere,
}

/// The last line of the view.
pub(crate) fn help(state: RunState, runs: Runs) -> &'static str {
    if runs == Runs::Elsewhere {
        return match state {
            RunState::Paused => "p resume   q stop the job   Ctrl-C: leave, the job goes on",
            RunState::Stopping => "letting iterations finish   Ctrl-C: leave, the job goes on",
            RunState::Done => "",
            RunState::Preparing => "q stop the job   Ctrl-C: leave, the job goes on",
            RunState::Running => "p pause   q stop the job   Ctrl-C: leave, the job goes on",
        };
    }
    match state {
        RunState::Paused => "p resume   + / - load by 10%   q stop   Ctrl-C twice: end at once",
        RunState::Stopping => "letting iterations finish   Ctrl-C: end at once",
        RunState::Done => "",
        RunState::Preparing | RunState::Running => {
            "p pause   + / - load by 10%   q stop   Ctrl-C twice: end at once"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_asks_for_one_thing() {
        let press = |c| KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE);
        let control = |c| KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL);
        let table = [
            (press('p'), RunState::Running, Some(Command::Pause)),
            (press('p'), RunState::Paused, Some(Command::Resume)),
            (press('+'), RunState::Running, Some(Command::Scale(1.1))),
            (press('='), RunState::Running, Some(Command::Scale(1.1))),
            (press('-'), RunState::Running, Some(Command::Scale(0.9))),
            (press('s'), RunState::Running, Some(Command::Stop)),
            (press('q'), RunState::Paused, Some(Command::Stop)),
            (control('c'), RunState::Stopping, Some(Command::Interrupt)),
            (press('c'), RunState::Running, None),
            (control('q'), RunState::Running, None),
            (press('x'), RunState::Running, None),
        ];
        for (key, state, expected) in table {
            assert_eq!(command(key, state), expected, "{key:?} {state:?}");
        }
    }
}
