//! The live view in a real terminal: it appears, obeys keys, and gives the terminal back.
//!
//! Needs tmux; says so and passes where it is missing.

use std::process::{Command, Output};

use crate::common::{Room, Target, VOLLEY, plan, until};

/// A terminal with its own tmux server, gone when dropped.
struct Terminal {
    socket: String,
    room: Room,
    target: Target,
}

impl Terminal {
    fn open(name: &str) -> Option<Terminal> {
        if Command::new("tmux").arg("-V").output().is_err() {
            eprintln!("skipped: needs tmux");
            return None;
        }
        let socket = format!("volley-e2e-{name}-{}", std::process::id());
        let terminal = Terminal { socket, room: Room::new(), target: Target::start() };
        let url = terminal.target.url();
        terminal.room.write("plan.yaml", &plan(&url, "vus: 2, duration: 10m, pacing: 10ms"));
        let folder = terminal.room.path("");
        let runtime = format!("XDG_RUNTIME_DIR={}", folder.display());
        let shell = ["env", "-u", "CI", "-u", "NO_COLOR", "PS1=$ ", &runtime, "bash", "--norc"];
        let place = ["new-session", "-d", "-x", "110", "-y", "40", "-c", folder.to_str().unwrap()];
        terminal.tmux(&[&place[..], &shell[..]].concat());
        terminal.wait_for("$");
        Some(terminal)
    }

    fn tmux(&self, args: &[&str]) -> Output {
        let mut command = Command::new("tmux");
        command.args(["-L", &self.socket, "-f", "/dev/null"]).args(args);
        command.env("LC_ALL", "C.UTF-8").output().unwrap()
    }

    fn screen(&self) -> String {
        let out = self.tmux(&["capture-pane", "-p"]);
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    #[track_caller]
    fn wait_for(&self, text: &str) {
        until(&format!("`{text}` is on the screen:\n{}", self.screen()), || {
            self.screen().contains(text)
        });
    }

    fn key(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    /// Runs the plan, notes the exit code and the terminal's settings before and after.
    fn run_plan(&self) {
        let line = format!(
            "clear; stty -g > before; {VOLLEY} run plan.yaml --summary s.json > out; echo $? > code; \
             stty -g > after; echo o''ver"
        );
        self.tmux(&["send-keys", "-l", &line]);
        self.key("Enter");
        self.wait_for("p pause");
        self.target.wait_for_requests(5);
    }

    /// The exit code, once the shell has the terminal back as it was.
    fn assert_given_back(&self) -> i32 {
        self.wait_for("over");
        let read = |name| std::fs::read_to_string(self.room.path(name)).unwrap();
        assert_eq!(read("before"), read("after"), "stty -g");
        let cursor = self.tmux(&["display-message", "-p", "#{cursor_flag} #{alternate_on}"]);
        let cursor = String::from_utf8_lossy(&cursor.stdout).trim().to_owned();
        assert_eq!(cursor, "1 0", "the cursor is visible, on the normal screen");
        assert!(read("out").contains("STEPS"), "the summary follows: {}", read("out"));
        read("code").trim().parse().unwrap()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

#[test]
fn keys_pause_scale_and_stop_a_run() {
    let Some(terminal) = Terminal::open("keys") else { return };
    terminal.run_plan();
    terminal.wait_for("main");
    terminal.key("p");
    terminal.wait_for("p resume");
    terminal.key("p");
    terminal.wait_for("p pause");
    for _ in 0..6 {
        terminal.key("+");
    }
    terminal.key("q");
    assert_eq!(terminal.assert_given_back(), 103);
    let summary = terminal.room.json("s.json");
    let timeline = summary["timeline"].to_string();
    for word in ["paused", "resumed", "scaled", "stop"] {
        assert!(timeline.contains(word), "no `{word}` in {timeline}");
    }
    assert_eq!(summary["requests"]["sent"], terminal.target.total());
}

#[test]
fn one_interrupt_ends_gracefully_and_the_terminal_is_sane() {
    let Some(terminal) = Terminal::open("interrupt") else { return };
    terminal.run_plan();
    terminal.key("C-c");
    assert_eq!(terminal.assert_given_back(), 105);
    assert_eq!(terminal.room.json("s.json")["stopped_by"], "interrupt");
}

#[test]
fn a_signal_from_outside_gives_the_terminal_back_too() {
    let Some(terminal) = Terminal::open("signal") else { return };
    terminal.run_plan();
    let done = terminal.room.volley(["ctl", "status", "--json"]).expect(0);
    let status: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    let pid = status["pid"].as_i64().unwrap() as i32;
    // SAFETY: the process was found through its own control socket, in this test's folder.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGTERM) }, 0);
    assert_eq!(terminal.assert_given_back(), 105);
}

#[test]
fn what_a_script_says_and_throws_appears_above_the_live_view_while_it_runs() {
    let Some(terminal) = Terminal::open("script") else { return };
    terminal.room.write(
        "s.js",
        "import { sleep } from 'k6';
export const options = { vus: 1, duration: '10m' };
export default function () {
  if (__ITER === 0) console.warn('hello from the script');
  if (__ITER === 1) throw new Error('thrown by the script');
  if (__ITER === 2) for (let i = 0; i < 500; i++) console.log('a flood');
  sleep(0.3);
}
",
    );
    let line = format!("clear; {VOLLEY} run s.js; echo o''ver");
    terminal.tmux(&["send-keys", "-l", &line]);
    terminal.key("Enter");
    terminal.wait_for("p pause");
    let all = || {
        let out = terminal.tmux(&["capture-pane", "-p", "-S", "-200"]);
        String::from_utf8_lossy(&out.stdout).into_owned()
    };
    until("all of it is shown while it runs", || {
        let shown = all();
        [
            "hello from the script",
            "Error: thrown by the script",
            "a flood",
            "more messages were left out",
        ]
        .iter()
        .all(|part| shown.contains(part))
    });
    let shown = all();
    assert!(terminal.screen().contains("p pause"), "the view is still there: {shown}");
    let flood = shown.lines().filter(|line| line.contains("a flood")).count();
    assert!((1..=50).contains(&flood), "{flood} of 500: {shown}");
    terminal.key("q");
    terminal.wait_for("over");
}
