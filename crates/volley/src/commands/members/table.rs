//! Members as a table for people and as JSON for programs.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::io::IsTerminal;
use std::time::Duration;

use membership::State;
use node::client::{MemberRow, Snapshot};
use report::format;
use serde_json::{Value, json};

/// Short ids have at least this many digits, and as many more as it takes to tell all apart.
const ID_DIGITS_MIN: usize = 8;

const HEADINGS: [&str; 10] =
    ["node", "role", "datacenter", "address", "state", "boot", "inc", "rtt", "health", "for"];

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    Yes,
    No,
}

impl Colour {
    pub fn of_stdout() -> Colour {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        if wanted && std::io::stdout().is_terminal() { Colour::Yes } else { Colour::No }
    }

    fn paint(self, state: State, text: &str) -> String {
        let code = match state {
            State::Confirmed => 32,
            State::Suspect | State::Unconfirmed => 33,
            State::Dead => 31,
            State::Left => 90,
        };
        match self {
            Colour::Yes => format!("\x1b[{code}m{text}\x1b[0m"),
            Colour::No => text.to_owned(),
        }
    }
}

/// By datacenter, role and address, so that a node keeps its place from look to look.
pub fn sorted<'a>(snapshot: &'a Snapshot, states: &[State]) -> Vec<&'a MemberRow> {
    let mut rows: Vec<&MemberRow> =
        snapshot.members.iter().filter(|row| states.contains(&row.state)).collect();
    rows.sort_by(|a, b| {
        (&a.datacenter, a.role, a.address, a.node).cmp(&(&b.datacenter, b.role, b.address, b.node))
    });
    rows
}

/// At most `limit` rows; those in trouble are kept rather than the others.
pub fn text(
    snapshot: &Snapshot,
    states: &[State],
    wide: bool,
    colour: Colour,
    limit: usize,
) -> String {
    let mut rows = sorted(snapshot, states);
    let shown = rows.len();
    if shown > limit {
        rows.sort_by_key(|row| row.state == State::Confirmed);
        rows.truncate(limit);
    }
    let digits = if wide { usize::MAX } else { digits(snapshot) };
    let cells: Vec<[String; 10]> = rows.iter().map(|row| cells_of(row, digits)).collect();
    let mut widths = HEADINGS.map(str::len);
    for row in &cells {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    if !cells.is_empty() {
        let line: Vec<String> =
            HEADINGS.iter().zip(widths).map(|(name, width)| format!("{name:width$}")).collect();
        let _ = writeln!(text, "{}", line.join("  ").trim_end());
    }
    for (row, cells) in rows.iter().zip(&cells) {
        let line: Vec<String> = cells
            .iter()
            .zip(widths)
            .zip(HEADINGS)
            .map(|((cell, width), heading)| match heading {
                "state" => colour.paint(row.state, &format!("{cell:width$}")),
                "boot" | "inc" | "rtt" | "for" => format!("{cell:>width$}"),
                _ => format!("{cell:width$}"),
            })
            .collect();
        let _ = writeln!(text, "{}", line.join("  ").trim_end());
    }
    if shown > cells.len() {
        let _ = writeln!(text, "... and {} more", shown - cells.len());
    }
    if !cells.is_empty() {
        text.push('\n');
    }
    let _ = writeln!(text, "{}", totals(snapshot, shown));
    text
}

fn totals(snapshot: &Snapshot, shown: usize) -> String {
    let count = |state: State| snapshot.members.iter().filter(|row| row.state == state).count();
    let parts: Vec<String> =
        [State::Confirmed, State::Suspect, State::Unconfirmed, State::Dead, State::Left]
            .into_iter()
            .filter(|state| count(*state) > 0)
            .map(|state| format!("{} {}", count(state), state.name()))
            .collect();
    let all = snapshot.members.len();
    let hidden = if shown < all { format!(" ({shown} shown)") } else { String::new() };
    let health = match snapshot.local_health {
        0 => "it is well itself".to_owned(),
        score => format!(
            "its own health is {score} of 8 (0 is well): it may see others worse than they are"
        ),
    };
    format!(
        "{}{hidden}: {}; * was asked, {health}",
        format::plural(all as u64, "member"),
        parts.join(", ")
    )
}

fn cells_of(row: &MemberRow, digits: usize) -> [String; 10] {
    let id: String = row.node.to_string().chars().take(digits).collect();
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let boot = match row.generation {
        0 => row.boot.to_string(),
        generation => format!("{}.{generation}", row.boot),
    };
    let health = row.health.as_ref().filter(|_| row.state.is_live());
    [
        if row.is_self { format!("{id}*") } else { id },
        row.role.to_string(),
        if row.datacenter.is_empty() { "?".to_owned() } else { row.datacenter.clone() },
        row.address.to_string(),
        row.state.name().to_owned(),
        boot,
        row.incarnation.to_string(),
        or_dash(row.rtt.filter(|_| !row.is_self).map(brief_rtt)),
        or_dash(health.map(|health| health.verdict.clone())),
        brief_age(row.in_state_for),
    ]
}

/// How many characters of an id tell all of them apart.
fn digits(snapshot: &Snapshot) -> usize {
    let ids: Vec<String> = snapshot.members.iter().map(|row| row.node.to_string()).collect();
    (ID_DIGITS_MIN..36)
        .find(|digits| {
            let short: BTreeSet<&str> = ids.iter().map(|id| &id[..*digits]).collect();
            short.len() == ids.len()
        })
        .unwrap_or(36)
}

fn brief_rtt(rtt: Duration) -> String {
    let us = rtt.as_micros();
    if us < 1000 { format!("{us}µs") } else { format!("{:.1}ms", rtt.as_secs_f64() * 1000.0) }
}

/// Seconds, then minutes, then hours, then days: two parts at most.
pub fn brief_age(age: Duration) -> String {
    let seconds = age.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

pub fn json(snapshot: &Snapshot, states: &[State]) -> Value {
    let rows = sorted(snapshot, states);
    let mut totals = serde_json::Map::new();
    for state in State::ALL {
        let count = snapshot.members.iter().filter(|row| row.state == state).count();
        totals.insert(state.name().to_owned(), count.into());
    }
    json!({
        "asked": snapshot.place.node.to_string(), "boot": snapshot.place.boot.0,
        "version": snapshot.place.version, "local_health": snapshot.local_health,
        "totals": totals, "members": rows.into_iter().map(json_row).collect::<Vec<_>>(),
    })
}

pub fn json_row(row: &MemberRow) -> Value {
    let ms = |time: Duration| time.as_millis() as u64;
    json!({
        "node": row.node.to_string(), "role": row.role.name(), "datacenter": row.datacenter,
        "address": row.address.to_string(), "state": row.state.name(), "boot": row.boot.0,
        "generation": row.generation, "incarnation": row.incarnation,
        "known_for_ms": ms(row.known_for), "in_state_for_ms": ms(row.in_state_for),
        "heard_ago_ms": row.heard_ago.map(ms), "rtt_us": row.rtt.map(|rtt| rtt.as_micros() as u64),
        "two_way": row.two_way, "deaths": row.deaths, "health": row.health, "self": row.is_self,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_two_parts_at_most() {
        let age = |seconds| brief_age(Duration::from_secs(seconds));
        assert_eq!(age(5), "5s");
        assert_eq!(age(65), "1m05s");
        assert_eq!(age(3 * 3600 + 120), "3h02m");
        assert_eq!(age(50 * 3600), "2d02h");
        assert_eq!(brief_rtt(Duration::from_micros(412)), "412µs");
        assert_eq!(brief_rtt(Duration::from_micros(12_345)), "12.3ms");
    }
}
