//! `volley new FILE`

use std::io::Write;

use crate::cli::NewArgs;
use crate::exit;

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
            println!("wrote {path}");
            println!("  volley target &            something to shoot at");
            println!("  volley plan {path}      what it would do");
            println!("  volley run {path}       do it");
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
