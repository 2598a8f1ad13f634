//! What end-to-end tests of scripts need: a target, a folder with scripts, `volley run` on them.

use std::ffi::OsStr;
use std::process::Command;

use serde_json::Value;

use super::{Done, Room, Running, Target, finish};

/// Scripts find the target's address in `__ENV.T`.
pub struct Scripts {
    pub room: Room,
    pub target: Target,
}

impl Scripts {
    pub fn new() -> Scripts {
        Scripts { room: Room::new(), target: Target::start() }
    }

    /// With `test.js`.
    pub fn with(text: &str) -> Scripts {
        let scripts = Scripts::new();
        scripts.room.write("test.js", text);
        scripts
    }

    /// `volley run`, quiet, with a log of nothing but messages.
    pub fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let address = format!("T={}", self.target.url());
        let mut command =
            self.room.command(["run", "--quiet", "--log-format", "raw", "--env", &address]);
        command.args(args);
        command
    }

    pub fn run<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Done {
        finish(&mut self.command(args))
    }

    pub fn start<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Running {
        Running::start(&mut self.command(args))
    }

    /// Runs `test.js` to its end and returns `--summary`.
    #[track_caller]
    pub fn summary(&self, code: i32) -> Value {
        self.run(["test.js", "--no-summary", "--summary", "s.json"]).expect(code);
        self.room.json("s.json")
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.room.path(name)).unwrap()
    }

    /// What `volley ctl status --json` says.
    pub fn status(&self) -> Value {
        let done = self.room.volley(["ctl", "status", "--json"]).expect(0);
        serde_json::from_str(&done.out).unwrap_or_else(|error| panic!("{error}: {}", done.out))
    }

    #[track_caller]
    pub fn until_status(&self, what: &str, mut holds: impl FnMut(&Value) -> bool) {
        super::until(what, || {
            let done = self.room.volley(["ctl", "status", "--json"]);
            serde_json::from_str(&done.out).is_ok_and(|status| holds(&status))
        });
    }
}

/// How often a line of the log is exactly this.
pub fn count_lines(done: &Done, line: &str) -> usize {
    done.err.lines().filter(|found| *found == line).count()
}
