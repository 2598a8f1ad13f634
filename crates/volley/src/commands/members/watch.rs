//! `volley debug members --watch`: the table and what changes, until Ctrl-C.
//!
//! On a terminal the table is drawn anew at each change, and once a second for the ages. Elsewhere
//! each change is a line. A member that goes away is asked again until it is back; the watch goes
//! on where it was, if that is still known.

use std::collections::VecDeque;
use std::io::IsTerminal;
use std::time::Duration;

use membership::{Cause, State};
use node::client::{ClientError, MemberChange, MembersClient, MembersEvent, Place, Snapshot};
use report::ExitCode;
use serde_json::json;
use tokio::time::{Instant, sleep, sleep_until};

use super::table::{self, Colour};
use super::{ClusterAccess, Step, time_of_day, wanted};
use crate::cli::AgentMembersArgs;
use crate::failure::Failure;
use crate::{print, signals};

/// How often a member that does not answer is asked.
const AGAIN: Duration = Duration::from_secs(1);
/// How often ages and round-trip times are read anew.
const REFRESH: Duration = Duration::from_secs(1);
/// Changes shown under the table.
const NEWS_MAX: usize = 8;
/// Lines that are not rows: headings, totals, changes, a problem, the end.
const OTHER_LINES: usize = NEWS_MAX + 10;

pub async fn watch(args: &AgentMembersArgs) -> Result<ExitCode, Failure> {
    let access = ClusterAccess::open(&args.at)?;
    let (stop, mut stopped) = tokio::sync::mpsc::unbounded_channel();
    signals::on_interrupt(move || {
        let _ = stop.send(());
    });
    let mut screen = Screen::new(args);
    // The first try has to succeed: a wrong address or certificate does not get better by waiting.
    let mut client =
        access.connect(&access.address, args.at.role).await.map_err(|e| access.explain(&e))?;
    loop {
        let ended = tokio::select! {
            biased;
            _ = stopped.recv() => return Ok(ExitCode::Passed),
            ended = follow(&client, &mut screen) => ended,
        };
        screen.lost(&ended.map_or("the member has ended the connection".to_owned(), |error| {
            access.explain(&error).to_string()
        }));
        client = loop {
            tokio::select! {
                biased;
                _ = stopped.recv() => return Ok(ExitCode::Passed),
                () = sleep(AGAIN) => {}
            }
            match access.connect(&access.address, args.at.role).await {
                Ok(client) => break client,
                Err(error) => screen.lost(&access.explain(&error).to_string()),
            }
        };
        screen.found(&access.address);
    }
}

/// Shows what comes until it ends; says why it did.
async fn follow(client: &MembersClient, screen: &mut Screen<'_>) -> Option<ClientError> {
    let mut watch = match client.watch(screen.place).await {
        Ok(watch) => watch,
        Err(error) => return Some(error),
    };
    let mut refresh_at = Instant::now();
    loop {
        tokio::select! {
            biased;
            event = watch.next() => match event {
                Some(Ok(MembersEvent::Snapshot(snapshot))) => {
                    screen.place = Some(snapshot.place);
                    screen.snapshot(snapshot);
                }
                Some(Ok(MembersEvent::Change(change))) => {
                    screen.place = Some(change.place);
                    screen.change(&change);
                    refresh_at = Instant::now();
                }
                Some(Err(error)) => return Some(error),
                None => return None,
            },
            () = sleep_until(refresh_at), if screen.live => {
                match client.members().await {
                    Ok(snapshot) => screen.snapshot(snapshot),
                    Err(error) => return Some(error),
                }
                refresh_at = Instant::now() + REFRESH;
            }
        }
    }
}

struct Screen<'a> {
    args: &'a AgentMembersArgs,
    states: Vec<State>,
    /// A terminal, on which the table is drawn again and again.
    live: bool,
    place: Option<Place>,
    /// What was last shown, and when it came.
    latest: Option<(Snapshot, Instant)>,
    news: VecDeque<String>,
    problem: Option<String>,
}

impl<'a> Screen<'a> {
    fn new(args: &'a AgentMembersArgs) -> Screen<'a> {
        Screen {
            args,
            states: wanted(&args.states),
            live: !args.json && std::io::stdout().is_terminal(),
            place: None,
            latest: None,
            news: VecDeque::new(),
            problem: None,
        }
    }

    fn snapshot(&mut self, snapshot: Snapshot) {
        if self.args.json {
            print::line(&json!({ "snapshot": table::json(&snapshot, &self.states) }).to_string());
        } else if !self.live {
            print::page(&table::text(
                &snapshot,
                &self.states,
                self.args.wide,
                Colour::No,
                usize::MAX,
            ));
        }
        self.latest = Some((snapshot, Instant::now()));
        self.draw();
    }

    fn change(&mut self, change: &MemberChange) {
        // A member that leaves the state that is shown is news, too.
        let shown =
            [change.from, change.to].into_iter().flatten().any(|s| self.states.contains(&s));
        if !shown {
            return;
        }
        if self.args.json {
            print::line(&json!({ "change": json_of(change) }).to_string());
            return;
        }
        let line = format!("{}  {}", time_of_day(), step_of(change));
        if !self.live {
            print::line(&line);
            return;
        }
        if self.news.len() >= NEWS_MAX {
            self.news.pop_front();
        }
        self.news.push_back(line);
        self.draw();
    }

    fn lost(&mut self, why: &str) {
        let first = self.problem.replace(why.to_owned()).is_none();
        if self.live {
            self.draw();
        } else if first {
            eprintln!("volley: {why}; asking again");
        }
    }

    fn found(&mut self, address: &str) {
        if self.problem.take().is_some() && !self.live {
            eprintln!("volley: {address} answers again");
        }
    }

    fn draw(&self) {
        let Some((snapshot, at)) = self.latest.as_ref().filter(|_| self.live) else { return };
        let (lines, columns) = terminal_size();
        let rows = lines.saturating_sub(OTHER_LINES).max(3);
        let mut text =
            table::text(snapshot, &self.states, self.args.wide, Colour::of_stdout(), rows);
        if !self.news.is_empty() {
            text.push_str("\nchanges\n");
        }
        self.news.iter().for_each(|line| text.push_str(&format!("  {line}\n")));
        match &self.problem {
            Some(problem) => text.push_str(&format!(
                "\nNOT CURRENT, as it was {} ago; asking again\n{problem}\n",
                table::brief_age(at.elapsed())
            )),
            None => text.push_str("\nCtrl-C ends\n"),
        }
        // Home, each line to its end, and then the rest: no flicker, and nothing old stays.
        let mut screen = String::from("\x1b[H");
        for line in text.lines() {
            screen.push_str(cut(line, columns));
            screen.push_str("\x1b[0m\x1b[K\n");
        }
        print::page(&format!("{screen}\x1b[J"));
    }
}

/// As much of a line as fits; colours take no room.
fn cut(line: &str, columns: usize) -> &str {
    let (mut width, mut in_colour) = (0, false);
    for (at, c) in line.char_indices() {
        match c {
            '\x1b' => in_colour = true,
            'm' if in_colour => in_colour = false,
            _ if in_colour => {}
            _ if width == columns => return &line[..at],
            _ => width += 1,
        }
    }
    line
}

/// Lines and columns; what does not say is taken for a small one.
fn terminal_size() -> (usize, usize) {
    // SAFETY: the structure is plain numbers, and the call fills it or fails.
    let mut size: libc::winsize = unsafe { std::mem::zeroed() };
    // SAFETY: as above; standard output is ours.
    let asked = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &mut size) };
    match (asked, size.ws_row, size.ws_col) {
        (0, 1.., 1..) => (usize::from(size.ws_row), usize::from(size.ws_col)),
        _ => (24, 80),
    }
}

fn step_of(change: &MemberChange) -> Step {
    Step {
        role: change.role,
        node: change.node,
        address: change.member.as_ref().map(|row| row.address),
        boot: change.boot,
        from: change.from,
        to: change.to,
        cause: change.cause,
    }
}

fn json_of(change: &MemberChange) -> serde_json::Value {
    let cause = match change.cause {
        Cause::Direct => "direct",
        Cause::Gossip => "gossip",
        Cause::Leave => "leave",
        Cause::NewLife => "new_life",
        Cause::NeverConfirmed => "never_confirmed",
        Cause::Reaped => "reaped",
    };
    json!({
        "version": change.place.version, "node": change.node.to_string(), "role": change.role.name(),
        "boot": change.boot.0, "generation": change.generation, "incarnation": change.incarnation,
        "from": change.from.map(State::name), "to": change.to.map(State::name), "cause": cause,
        "member": change.member.as_ref().map(table::json_row),
    })
}

#[cfg(test)]
mod tests {
    use super::cut;

    #[test]
    fn lines_are_cut_by_what_is_seen_of_them() {
        assert_eq!(cut("abcdef", 4), "abcd");
        assert_eq!(cut("abc", 4), "abc");
        assert_eq!(cut("\x1b[31mab\x1b[0mcd", 3), "\x1b[31mab\x1b[0mc");
        assert_eq!(cut("µµµ", 2), "µµ");
    }
}
