//! `volley new FILE`

use std::io::Write;

use crate::cli::NewArgs;
use crate::{exit, print};

/// A script to start from.
const SCRIPT: &str = "\
import http from 'k6/http';
import { check, sleep } from 'k6';

// How much: 10 virtual users for 30 seconds. What must hold: thresholds.
export const options = {
  vus: 10,
  duration: '30s',
  thresholds: {
    http_req_failed: ['rate<0.01'],
    http_req_duration: ['p(95)<200'],
    checks: ['rate>0.99'],
  },
};

const BASE = __ENV.BASE || 'http://127.0.0.1:8080';

// What one virtual user does, over and over.
export default function () {
  const response = http.get(`${BASE}/`);
  check(response, { 'status is 200': (r) => r.status === 200 });
  sleep(1);
}
";

pub fn new(args: &NewArgs) -> i32 {
    let path = args.file.display();
    let mut options = std::fs::OpenOptions::new();
    options.write(true);
    if args.force {
        options.create(true).truncate(true);
    } else {
        options.create_new(true);
    }
    let is_script = super::script::is_script(&args.file);
    let starter = if is_script { SCRIPT } else { plan::starter() };
    let written = options.open(&args.file).and_then(|mut file| file.write_all(starter.as_bytes()));
    match written {
        Ok(()) => {
            print::line(&format!("wrote {path}"));
            for (command, what) in [
                ("target &".to_owned(), "something to shoot at"),
                (format!("plan {path}"), "what it would do"),
                match is_script {
                    true => {
                        (format!("run {path} -i 1 --http-debug"), "one iteration, exchanges shown")
                    }
                    false => (format!("run {path} --debug"), "one iteration, every exchange shown"),
                },
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
