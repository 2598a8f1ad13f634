//! The ledger's time, noted for the next process: what passes while all managers are down is time,
//! too (R27).
//!
//! `DATA/time` has three lines: which start of the machine, the ledger's time, the uptime at which
//! it was read. It is not synced: it outlives the process, and after a restart of the machine it is
//! of no use.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ledger::timekeeper::Reading;
use tokio::sync::watch;

use super::Shared;
use crate::machine;

const NOTE_EVERY: Duration = Duration::from_millis(500);

pub fn uptime() -> Duration {
    base::clock::now().uptime()
}

/// What an earlier process has noted, if the machine was not restarted since.
pub fn noted(data: &Path) -> Option<Reading> {
    let text = fs::read_to_string(data.join("time")).ok()?;
    let mut lines = text.lines();
    let same = lines.next()? == machine::start_id() && !machine::start_id().is_empty();
    let ms = lines.next()?.parse().ok()?;
    let at = Duration::from_millis(lines.next()?.parse().ok()?);
    (same && at <= uptime()).then_some((ms, at))
}

fn note(data: &Path, (ms, at): Reading) -> std::io::Result<()> {
    let text = format!("{}\n{ms}\n{}\n", machine::start_id(), at.as_millis());
    let part = data.join("time.part");
    fs::write(&part, text)?;
    fs::rename(part, data.join("time"))
}

/// Notes it until told to stop.
pub async fn run(shared: Arc<Shared>, data: PathBuf, mut stop: watch::Receiver<bool>) {
    let mut last = None;
    loop {
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return,
            () = tokio::time::sleep(NOTE_EVERY) => {}
        }
        let Some(parts) = shared.parts() else { return };
        let read = parts.ledger.time_read();
        if let Some(reading) = read.filter(|_| read != last) {
            // A full disk costs the time of an outage, and nothing else.
            let (folder, noted) = (data.clone(), reading);
            let written = shared.host.blocking(move || note(&folder, noted)).await;
            if let Ok(Ok(())) = written {
                last = read;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_is_found_again_only_on_the_same_start_of_the_machine() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(noted(folder.path()), None);
        note(folder.path(), (5_000, Duration::from_millis(17))).unwrap();
        assert_eq!(noted(folder.path()), Some((5_000, Duration::from_millis(17))));
        let path = folder.path().join("time");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replacen(&machine::start_id(), "another start", 1)).unwrap();
        assert_eq!(noted(folder.path()), None);
        for damaged in ["", "x", "x\n1", "\n\n\n", &text[..text.len() / 2]] {
            fs::write(&path, damaged).unwrap();
            assert_eq!(noted(folder.path()), None, "{damaged:?}");
        }
    }
}
