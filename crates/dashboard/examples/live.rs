//! A made-up run in the live view: `cargo run -p dashboard --example live -- [seconds] [ci]
//! [panic]`.

mod fake;

use std::sync::mpsc;
use std::time::{Duration, Instant};

use dashboard::{Command, Environment, Latest, Mode, Options, View};
use stats::RunState;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| words.iter().any(|given| given == word);
    let seconds: u64 = words.iter().find_map(|word| word.parse().ok()).unwrap_or(10);
    let terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let mode = match has("ci") {
        true => Mode::Ci,
        false => Mode::choose(Environment::of_process(false, terminal)),
    };
    let (commands, asked) = mpsc::channel();
    let latest = Latest::new();
    let options = Options { interval: Duration::from_secs(1), ..Options::default() };
    let view = View::start(mode, latest.clone(), commands, options, Default::default());
    let begun = Instant::now();
    let (mut state, mut log) = (RunState::Running, Vec::new());
    while begun.elapsed() < Duration::from_secs(seconds) {
        let mut snapshot = fake::snapshot(begun.elapsed().as_millis() as u64);
        snapshot.state = state;
        latest.publish(snapshot);
        if let Ok(command) = asked.recv_timeout(Duration::from_millis(100)) {
            log.push(command);
            match command {
                Command::Pause => state = RunState::Paused,
                Command::Resume => state = RunState::Running,
                Command::Interrupt if state == RunState::Stopping => break,
                Command::Stop | Command::Interrupt => state = RunState::Stopping,
                Command::Scale(_) => {}
            }
        }
        if has("panic") && begun.elapsed() > Duration::from_secs(2) {
            panic!("as asked");
        }
    }
    view.finish();
    println!("commands: {log:?}");
}
