//! Every exit code of the command, once: its number, its name and what it means.
//!
//! The table of README.md, that of docs/scripts.md and the text of `volley --help` are made from
//! here; a test of the command compares the documents with [`ExitCode::table`] and
//! [`ExitCode::script_table`].

use std::fmt;

/// With what the command ends. Numbers that k6 has mean the same there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExitCode {
    /// All held.
    Passed,
    /// Something on this machine failed before or beside the run.
    Failed,
    /// The command line is wrong.
    Usage,
    /// A threshold, a check or a request failed; or `ping` got no good answer.
    NotHeld,
    /// `setup()` of a script took too long.
    SetupTimeout,
    /// `teardown()` of a script took too long.
    TeardownTimeout,
    /// The plan's own time limit passed.
    TimedOut,
    /// Somebody stopped the run on purpose.
    Stopped,
    /// The plan or a setting is wrong.
    InvalidPlan,
    /// A signal ended the run.
    Interrupted,
    /// A script threw where an exception ends the test.
    Exception,
    /// A script ended its own test.
    Aborted,
    /// A core of the load generator crashed.
    Crashed,
    /// A script marked its own test as failed.
    MarkedFailed,
    /// A node must not run, and starting it again does not help.
    NodeRefused,
    /// A node's disk cannot be trusted, and somebody has to look at it first.
    DiskRefused,
    /// The result's own numbers mean nothing.
    InvalidResult,
    /// What became of a job is not known, because no manager answers.
    ControlPlaneLost,
    /// A part of the plan failed.
    Unfinished,
    /// A script that cannot be read or has nothing to run.
    NotStarted,
}

use ExitCode::*;

/// The rows of README's table, in the order in which they are looked at.
const OF_PLANS: [ExitCode; 11] = [
    Passed,
    Usage,
    InvalidPlan,
    Interrupted,
    ControlPlaneLost,
    TimedOut,
    Stopped,
    Unfinished,
    InvalidResult,
    NotHeld,
    Failed,
];

/// The rows of the table for scripts, in the order in which they are looked at. They have words of
/// their own, because one number stands for several situations there, and some situations of plans
/// do not exist.
const OF_SCRIPTS: [(&[ExitCode], &str); 16] = [
    (&[Usage], "the command line is wrong (k6: 255)"),
    (&[NotStarted], "the script cannot be read, or exports no function"),
    (&[InvalidPlan], "options, a threshold or an output file is wrong; nothing was sent"),
    (
        &[Exception],
        "syntax error, import or part of k6 that is not there, exception in the init code; nothing was sent",
    ),
    (
        &[Interrupted],
        "interrupted by Ctrl-C, SIGTERM or SIGHUP: iterations are cut off and counted as interrupted, \
         `teardown()` runs, the summary is printed",
    ),
    (&[Stopped], "stopped by `volley ctl stop` or the key `q`"),
    (&[SetupTimeout, TeardownTimeout], "`setup()`, `teardown()` took too long"),
    (
        &[Exception],
        "exception in `setup()` or `teardown()`, or the script called a part of k6 that is not there",
    ),
    (&[Aborted], "`exec.test.abort()`"),
    (&[Crashed], "a core of the generator crashed"),
    (&[Unfinished], "on a fleet: a scenario failed for another reason than an exception"),
    (&[NotHeld], "a threshold failed"),
    (&[MarkedFailed], "`exec.test.fail()`"),
    (
        &[InvalidResult],
        "with `--strict`: the result is invalid, for example because no request was made; with `--fail-on degraded` \
         also one that is degraded",
    ),
    (&[NotHeld], "with `--strict`: checks or requests failed, and no threshold speaks of them"),
    (&[Passed], "otherwise, also if every iteration threw: as in k6"),
];

impl ExitCode {
    pub const ALL: [ExitCode; 20] = [
        Passed,
        Failed,
        Usage,
        NotHeld,
        SetupTimeout,
        TeardownTimeout,
        TimedOut,
        Stopped,
        InvalidPlan,
        Interrupted,
        Exception,
        Aborted,
        Crashed,
        MarkedFailed,
        NodeRefused,
        DiskRefused,
        InvalidResult,
        ControlPlaneLost,
        Unfinished,
        NotStarted,
    ];

    /// Number, name and meaning, side by side, so that none of them can be forgotten.
    const fn entry(self) -> (i32, &'static str, &'static str) {
        match self {
            Passed => (0, "passed", "all held"),
            Failed => (
                1,
                "failed",
                "something on this machine failed beside the run, for example a port in use, or standard output \
                 that cannot be written",
            ),
            Usage => (2, "usage", "the command line is wrong"),
            NotHeld => (
                99,
                "not-held",
                "a threshold failed; or a check or request failed, and no threshold says how many may",
            ),
            SetupTimeout => (100, "setup-timeout", "`setup()` of a script took too long"),
            TeardownTimeout => (101, "teardown-timeout", "`teardown()` of a script took too long"),
            TimedOut => (102, "timed-out", "the plan's `timeout` passed"),
            Stopped => {
                (103, "stopped", "stopped by `volley ctl stop`, `volley cancel` or the key `q`")
            }
            InvalidPlan => {
                (104, "invalid-plan", "the plan or a setting is wrong; nothing was sent")
            }
            Interrupted => (
                105,
                "interrupted",
                "interrupted: Ctrl-C, SIGTERM or the end of the terminal (SIGHUP) once ends gracefully with a \
                 summary, twice at once",
            ),
            Exception => (107, "exception", "a script threw where an exception ends the test"),
            Aborted => (108, "aborted", "a script ended its own test: `exec.test.abort()`"),
            Crashed => (109, "crashed", "a core of the generator crashed"),
            MarkedFailed => {
                (110, "marked-failed", "a script marked its test as failed: `exec.test.fail()`")
            }
            NodeRefused => (
                111,
                "node-refused",
                "another process runs as this node, or its certificate or data folder is not the right one",
            ),
            DiskRefused => (
                112,
                "disk-refused",
                "a node's disk refused a flush, or the ledger's files are damaged",
            ),
            InvalidResult => (
                120,
                "invalid-result",
                "the result is invalid: its numbers mean nothing (with `--fail-on degraded`: or it is degraded)",
            ),
            ControlPlaneLost => (
                121,
                "control-plane-lost",
                "no manager has answered for long while a job on a fleet was watched; the job may go on",
            ),
            Unfinished => (122, "unfinished", "a workflow or setup failed"),
            NotStarted => (255, "not-started", "a script cannot be read, or exports no function"),
        }
    }

    /// What a shell sees.
    #[must_use]
    pub const fn number(self) -> i32 {
        self.entry().0
    }

    /// A word for programs and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.entry().1
    }

    /// One line for people, without a full stop.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        self.entry().2
    }

    /// The code with this number, if the command has one.
    #[must_use]
    pub fn of_number(number: i32) -> Option<ExitCode> {
        Self::ALL.into_iter().find(|code| code.number() == number)
    }

    /// README's table, as Markdown.
    #[must_use]
    pub fn table() -> String {
        let rows = OF_PLANS.map(|code| format!("| {code} | {} |\n", code.meaning()));
        format!("{HEAD}{}", rows.concat())
    }

    /// The table of docs/scripts.md, as Markdown.
    #[must_use]
    pub fn script_table() -> String {
        let rows = OF_SCRIPTS.map(|(codes, when)| {
            let numbers: Vec<String> = codes.iter().map(ToString::to_string).collect();
            format!("| {} | {when} |\n", numbers.join(", "))
        });
        format!("{HEAD}{}", rows.concat())
    }

    /// The same codes as README has, for `--help`.
    #[must_use]
    pub fn help() -> String {
        let rows = OF_PLANS.map(|code| format!("  {code:>3}  {}\n", code.meaning()));
        format!("Exit codes:\n{}Scripts have more, which are k6's: docs/scripts.md", rows.concat())
    }
}

const HEAD: &str = "| Code | When |\n|---|---|\n";

impl fmt::Display for ExitCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.number(), f)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_code_has_its_own_number_and_name_and_is_found_by_its_number() {
        let numbers: BTreeSet<i32> = ExitCode::ALL.iter().map(|code| code.number()).collect();
        let names: BTreeSet<&str> = ExitCode::ALL.iter().map(|code| code.name()).collect();
        assert_eq!((numbers.len(), names.len()), (ExitCode::ALL.len(), ExitCode::ALL.len()));
        for code in ExitCode::ALL {
            assert_eq!(ExitCode::of_number(code.number()), Some(code));
            assert!(!code.meaning().ends_with('.') && !code.meaning().contains('|'), "{code:?}");
        }
        assert_eq!(ExitCode::of_number(106), None);
    }

    #[test]
    fn every_code_is_in_a_table_or_is_one_of_a_node() {
        let told = |code: &ExitCode| {
            OF_PLANS.contains(code) || OF_SCRIPTS.iter().any(|(codes, _)| codes.contains(code))
        };
        let untold: Vec<ExitCode> = ExitCode::ALL.into_iter().filter(|code| !told(code)).collect();
        // docs/fleet.md tells of these, with what a supervisor has to do.
        assert_eq!(untold, [NodeRefused, DiskRefused]);
    }
}
