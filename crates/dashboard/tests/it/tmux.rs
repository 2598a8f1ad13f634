//! The live view in a real terminal: keys arrive, and the terminal is given back whatever happens.
//!
//! Needs tmux and the example `live`, which `cargo test` builds; says so and passes where one is
//! missing.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// A terminal of its own, with its own server, gone when dropped.
struct Tmux {
    socket: String,
    live: PathBuf,
}

impl Tmux {
    fn start(name: &str) -> Option<Tmux> {
        let live = std::env::current_exe().ok()?.parent()?.parent()?.join("examples/live");
        let found = Command::new("tmux").arg("-V").output().is_ok();
        if !live.exists() || !found {
            eprintln!("skipped: needs tmux and {}", live.display());
            return None;
        }
        let tmux = Tmux { socket: format!("volley-{name}-{}", std::process::id()), live };
        let size = ["-x", "100", "-y", "30"];
        let shell = ["env", "PS1=$ ", "RUST_BACKTRACE=0", "bash", "--norc"];
        let start = [&["new-session", "-d"], &size[..], &shell[..]].concat();
        tmux.call(&start);
        tmux.wait_for("$");
        Some(tmux)
    }

    fn call(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new("tmux");
        // Where tests run says nothing about the terminal that is tested.
        command.env_remove("CI").env_remove("NO_COLOR");
        command.args(["-L", &self.socket, "-f", "/dev/null"]).args(arguments);
        command.env("LC_ALL", "C.UTF-8").output().unwrap()
    }

    fn run(&self, arguments: &str) {
        let line = format!("clear; {} {arguments}; stty -a; echo e''nd", self.live.display());
        self.call(&["send-keys", "-l", &line]);
        self.call(&["send-keys", "Enter"]);
    }

    fn key(&self, key: &str) {
        self.call(&["send-keys", key]);
    }

    fn screen(&self) -> String {
        let out = self.call(&["capture-pane", "-p"]);
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    fn wait_for(&self, text: &str) -> String {
        let begun = Instant::now();
        loop {
            let screen = self.screen();
            if screen.contains(text) {
                return screen;
            }
            let waited = begun.elapsed();
            assert!(waited < Duration::from_secs(20), "no {text:?} in:\n{screen}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The shell has the terminal again, in the state that shells expect.
    fn assert_restored(&self) -> String {
        let screen = self.wait_for("\nend");
        assert!(screen.contains(" icanon") && screen.contains(" echo "), "{screen}");
        let cursor = self.call(&["display-message", "-p", "#{cursor_flag}"]);
        assert_eq!(String::from_utf8_lossy(&cursor.stdout).trim(), "1", "the cursor is visible");
        screen
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.call(&["kill-server"]);
    }
}

#[test]
fn keys_become_commands_and_the_terminal_is_restored() {
    let Some(tmux) = Tmux::start("keys") else {
        return;
    };
    tmux.run("60");
    tmux.wait_for("p pause");
    tmux.key("p");
    tmux.wait_for("p resume");
    tmux.key("p");
    tmux.wait_for("p pause");
    tmux.key("+");
    tmux.key("C-c");
    tmux.wait_for("letting iterations finish");
    tmux.key("C-c");
    let screen = tmux.assert_restored();
    assert!(
        screen.contains("commands: [Pause, Resume, Scale(1.1), Interrupt, Interrupt]"),
        "{screen}"
    );
    assert!(!screen.contains("checkout"), "the view is gone:\n{screen}");
}

#[test]
fn after_a_panic_the_terminal_is_restored_and_the_message_readable() {
    let Some(tmux) = Tmux::start("panic") else {
        return;
    };
    tmux.run("60 panic");
    let screen = tmux.assert_restored();
    assert!(screen.contains("\nas asked"), "{screen}");
}

#[test]
fn the_view_follows_the_size_of_the_terminal() {
    let Some(tmux) = Tmux::start("size") else {
        return;
    };
    tmux.run("60");
    tmux.wait_for("p pause");
    for (width, height) in [("60", "30"), ("120", "40"), ("50", "12"), ("100", "30")] {
        tmux.call(&["resize-window", "-x", width, "-y", height]);
        std::thread::sleep(Duration::from_millis(500));
        let screen = tmux.wait_for("p pause");
        assert_eq!(screen.matches("checkout").count(), 1, "{width}×{height}:\n{screen}");
    }
    tmux.key("C-c");
    tmux.wait_for("letting iterations finish");
    tmux.key("C-c");
    tmux.assert_restored();
}

#[test]
fn standard_output_may_be_a_file() {
    let Some(tmux) = Tmux::start("file") else {
        return;
    };
    tmux.run("3 > /dev/null");
    tmux.wait_for("p pause");
    tmux.assert_restored();
}
