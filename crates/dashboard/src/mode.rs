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

/// Whether nothing but ASCII may be shown: by a locale that is set and is not one of UTF-8.
pub fn wants_ascii() -> bool {
    is_ascii_locale(|name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
}

/// POSIX's order: the first of the three that is not empty decides. Containers often set none, and
/// are looked at through terminals that know UTF-8; so only who says something gets ASCII.
fn is_ascii_locale(variable: impl Fn(&str) -> Option<String>) -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .find_map(|name| variable(name).filter(|v| !v.is_empty()));
    locale.is_some_and(|locale| {
        let locale = locale.to_ascii_lowercase();
        !locale.contains("utf-8") && !locale.contains("utf8")
    })
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
    fn the_first_locale_that_is_set_decides_between_ascii_and_utf_8() {
        let table: [(&[(&str, &str)], bool); 7] = [
            (&[], false),
            (&[("LC_ALL", "C")], true),
            (&[("LANG", "POSIX")], true),
            (&[("LANG", "de_DE.ISO-8859-1")], true),
            (&[("LC_ALL", "C.UTF-8"), ("LANG", "C")], false),
            (&[("LC_ALL", ""), ("LC_CTYPE", "en_GB.utf8"), ("LANG", "C")], false),
            (&[("LC_CTYPE", "C"), ("LANG", "en_GB.UTF-8")], true),
        ];
        for (set, ascii) in table {
            let value = |name: &str| {
                set.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
            };
            assert_eq!(is_ascii_locale(value), ascii, "{set:?}");
        }
    }

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
