//! Good messages to begin with: one of every kind that nodes of a fleet say to each other, as tests
//! pin their bytes.
//!
//! Run it in this folder before the fuzzer.

use std::path::Path;

const GOLDEN: &str = include_str!("../../crates/control/tests/messages/golden.txt");

/// As in the target.
fn choice(kind: &str) -> Option<u8> {
    let name = kind.split("::").next()?;
    Some(match name {
        "WorkerRequest" => 0,
        "WorkerResponse" => 6,
        "WorkerReport" => 7,
        "ReportAck" => 8,
        "FrameBatch" => 11,
        "FrameBatchAck" => 12,
        "RenewRequest" => 13,
        "Renewals" => 14,
        _ => return None,
    })
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digits = |at: usize| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
    (0..hex.len()).step_by(2).map(digits).collect()
}

/// A question has its length in front, because several can follow each other.
fn framed(message: &[u8]) -> Vec<u8> {
    [&[u8::try_from(message.len()).unwrap_or(u8::MAX)], message].concat()
}

fn main() -> std::io::Result<()> {
    let folder = Path::new("corpus/fleet_messages");
    std::fs::create_dir_all(folder)?;
    let mut course = vec![0];
    let mut written = 0;
    for line in GOLDEN.lines() {
        let Some((kind, hex)) = line.split_once(' ') else { continue };
        let (Some(choice), Some(message)) = (choice(kind), bytes(hex)) else { continue };
        let mut seed = vec![choice];
        if choice == 0 {
            course.extend(framed(&message));
            seed.extend(framed(&message));
        } else {
            seed.extend(message);
        }
        std::fs::write(folder.join(format!("seed-{written}")), seed)?;
        written += 1;
    }
    std::fs::write(folder.join("seed-course"), course)?;
    println!("{} seeds in {}", written + 1, folder.display());
    Ok(())
}
