//! Flags of k6 that mean nothing here. They are taken, so that a command line that works with k6
//! works, and each that changes nothing is answered with one line.

use clap::Args;

use script::options::values as k6;

#[derive(Args, Debug, Default, Clone)]
#[command(next_help_heading = "Scripts (as in k6)")]
pub struct K6OnlyArgs {
    /// Nothing is ever reported to anybody, with or without this
    #[arg(long, hide = true)]
    pub no_usage_report: bool,
    #[arg(short = 'a', long, hide = true, value_name = "ADDRESS")]
    pub address: Option<String>,
    #[arg(short = 'l', long, hide = true)]
    pub linger: bool,
    #[arg(long, hide = true)]
    pub profiling_enabled: bool,
    #[arg(long, hide = true, value_name = "SOURCE")]
    pub secret_source: Vec<String>,
    #[arg(long, hide = true, value_name = "OUTPUT")]
    pub traces_output: Option<String>,
}

const NO_SERVER: &str =
    "there is no server in a run; `volley ctl` steers it from another terminal, over a socket";

impl K6OnlyArgs {
    /// What is said of those that were given, and of variables that stand for them.
    pub fn notes(&self, var: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
        let is_on = |name: &str| var(name).is_some_and(|value| k6::boolean(&value).unwrap_or(true));
        let traces = self.traces_output.as_deref().filter(|output| *output != "none");
        let given = [
            (self.address.is_some(), "--address", NO_SERVER),
            (is_on("K6_LINGER"), "K6_LINGER", NO_SERVER),
            (self.linger, "--linger", NO_SERVER),
            (self.profiling_enabled, "--profiling-enabled", NO_SERVER),
            (
                !self.secret_source.is_empty(),
                "--secret-source",
                "`k6/secrets` is not available; pass the value with `-e NAME=VALUE`",
            ),
            (traces.is_some(), "--traces-output", "traces are not made"),
        ];
        let said = given.iter().filter(|(given, ..)| *given);
        said.map(|(_, name, why)| format!("{name} has no effect: {why}")).collect()
    }

    pub fn first_given(&self) -> Option<&'static str> {
        let given = [
            ("--no-usage-report", self.no_usage_report),
            ("--address", self.address.is_some()),
            ("--linger", self.linger),
            ("--profiling-enabled", self.profiling_enabled),
            ("--secret-source", !self.secret_source.is_empty()),
            ("--traces-output", self.traces_output.is_some()),
        ];
        given.iter().find(|(_, given)| *given).map(|(name, _)| *name)
    }
}
