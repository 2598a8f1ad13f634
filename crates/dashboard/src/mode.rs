//! Which of the three views a run gets (GATE-129).

/// `full`: the live view; `ci`: a plain line every few seconds; `none`: silence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Full,
    Ci,
    None,
}

/// What the choice depends on; gathered by the caller, so that the rule can be tested.
#[derive(Debug, Clone, Copy, Default)]
pub struct Environment {
    pub quiet: bool,
    /// The stream that the view is drawn on.
    pub output_is_terminal: bool,
    /// `CI` is set: logs are read later, by scrolling.
    pub ci: bool,
    /// `TERM=dumb`: no cursor movement.
    pub dumb: bool,
}

impl Mode {
    pub const NAMES: [&str; 3] = ["full", "ci", "none"];

    pub fn choose(environment: Environment) -> Mode {
        let Environment { quiet, output_is_terminal, ci, dumb } = environment;
        match () {
            () if quiet => Mode::None,
            () if output_is_terminal && !ci && !dumb => Mode::Full,
            () => Mode::Ci,
        }
    }
}

impl Environment {
    /// Reads `CI` and `TERM` of this process.
    pub fn of_process(quiet: bool, output_is_terminal: bool) -> Environment {
        Environment {
            quiet,
            output_is_terminal,
            ci: std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false"),
            dumb: std::env::var_os("TERM").is_some_and(|term| term == "dumb"),
        }
    }
}

/// Colours unless the user said no: by a flag, by `NO_COLOR`, or by a terminal that has none.
pub fn wants_color(no_color_flag: bool, output_is_terminal: bool) -> bool {
    let forbidden = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    output_is_terminal && !no_color_flag && !forbidden && !dumb
}

impl std::str::FromStr for Mode {
    type Err = String;

    fn from_str(name: &str) -> Result<Mode, String> {
        match name {
            "full" => Ok(Mode::Full),
            "ci" => Ok(Mode::Ci),
            "none" => Ok(Mode::None),
            other => Err(format!("`{other}` is not a view; choose one of full, ci, none")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_view_is_full_on_a_terminal_plain_elsewhere_and_absent_when_quiet() {
        let terminal = Environment { output_is_terminal: true, ..Environment::default() };
        let table = [
            (terminal, Mode::Full),
            (Environment { ci: true, ..terminal }, Mode::Ci),
            (Environment { dumb: true, ..terminal }, Mode::Ci),
            (Environment { quiet: true, ..terminal }, Mode::None),
            (Environment::default(), Mode::Ci),
            (Environment { quiet: true, ..Environment::default() }, Mode::None),
        ];
        for (environment, mode) in table {
            assert_eq!(Mode::choose(environment), mode, "{environment:?}");
        }
        for name in Mode::NAMES {
            assert!(name.parse::<Mode>().is_ok(), "{name}");
        }
        assert!("fancy".parse::<Mode>().unwrap_err().contains("full, ci, none"));
    }
}
