//! `volley new FILE`

use std::io::Write;

use crate::cli::NewArgs;
use crate::{exit, print};

pub fn new(args: &NewArgs) -> i32 {
    let path = args.file.display();
    let mut options = std::fs::OpenOptions::new();
    options.write(true);
    if args.force {
        options.create(true).truncate(true);
    } else {
        options.create_new(true);
    }
    let written =
        options.open(&args.file).and_then(|mut file| file.write_all(plan::starter().as_bytes()));
    match written {
        Ok(()) => {
            print::line(&format!("wrote {path}"));
            for (command, what) in [
                ("target &".to_owned(), "something to shoot at"),
                (format!("plan {path}"), "what it would do"),
                (format!("run {path} --debug"), "one iteration, every exchange shown"),
                (format!("run {path}"), "all of it"),
            ] {
                print::line(&format!("  volley {command:<28} {what}"));
            }
            0
        }
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            eprintln!("volley: {path} exists; `--force` overwrites it");
            exit::FAILED
        }
        Err(error) => {
            eprintln!("volley: cannot write {path}: {error}");
            exit::FAILED
        }
    }
}
