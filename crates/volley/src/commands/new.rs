//! `volley new FILE`

use std::io::Write;
use std::path::Path;

use clap::ValueEnum;
use plan::{Format, SCHEMA_FILE, STARTERS, Starter};
use report::ExitCode;

use crate::cli::{NewArgs, Template};
use crate::failure::Failure;
use crate::print;

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

pub fn new(args: &NewArgs) -> ExitCode {
    let path = args.file.display();
    let is_script = super::script::is_script(&args.file);
    let template = args.file.to_str().and_then(|name| Template::from_str(name, true).ok());
    if let (Some(template), None) = (template, args.template) {
        let (name, ending) =
            (template.name(), if template == Template::K6 { "js" } else { "yaml" });
        let text = format!("`{path}` is a template, and here the name of a file is wanted");
        let help = format!("`volley new plan.{ending} --template {name}`");
        return Failure::usage(text).help(help).tell();
    }
    let starter = match (args.template, is_script) {
        (None | Some(Template::K6), true) => None,
        (Some(Template::K6), false) => {
            let name = with_js(args);
            let text = format!("{path} would be a plan, and k6's are scripts: name it {name}");
            return Failure::usage(text).tell();
        }
        (Some(template), true) => {
            let name = template.name();
            let text =
                format!("{path} would be a script, and `{name}` is a plan: name it {name}.yaml");
            return Failure::usage(text).tell();
        }
        (template, false) => {
            let name = template.unwrap_or(Template::Start).name();
            STARTERS.iter().find(|starter| starter.name == name)
        }
    };
    let text = match starter {
        None => SCRIPT.to_owned(),
        Some(starter) => starter.text(Format::of(&args.file, "")),
    };
    if let Err(error) = write(&args.file, &text, args.force) {
        let failure = match error.kind() {
            std::io::ErrorKind::AlreadyExists => {
                Failure::failed(format!("{path} exists")).help("`--force` overwrites it")
            }
            _ => Failure::failed(error).at(format!("cannot write {path}")),
        };
        return failure.tell();
    }
    let about = starter.map_or("a script for k6 and Volley", |starter| starter.about);
    print::line(&format!("wrote {path}: {about}"));
    if let Some(code) = starter.and_then(|starter| write_beside(starter, args)) {
        return code;
    }
    let debug = match is_script {
        true => (format!("run {path} -i 1 --http-debug"), "one iteration, exchanges shown"),
        false => (format!("run {path} --debug"), "one iteration, every exchange shown"),
    };
    let mut next = vec![
        ("target &".to_owned(), "something to shoot at"),
        (format!("plan {path}"), "what it would do"),
        debug,
        (format!("run {path}"), "all of it"),
    ];
    if !is_script {
        next.push((format!("schema > {SCHEMA_FILE}"), "editors complete and check it by this"));
    }
    for (command, what) in next {
        print::line(&format!("  volley {command:<28} {what}"));
    }
    ExitCode::Passed
}

fn write(path: &Path, text: &str, force: bool) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true);
    if force {
        options.create(true).truncate(true);
    } else {
        options.create_new(true);
    }
    options.open(path)?.write_all(text.as_bytes())
}

/// The file that the plan names. One that is there is the user's own, `--force` or not. An exit
/// code if it cannot be written.
fn write_beside(starter: &Starter, args: &NewArgs) -> Option<ExitCode> {
    let (name, text) = starter.file?;
    let path = args.file.with_file_name(name);
    match write(&path, text, false) {
        Ok(()) => print::line(&format!("wrote {}", path.display())),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            print::line(&format!("left {} as it is", path.display()));
        }
        Err(error) => {
            let failure = Failure::failed(error).at(format!("cannot write {}", path.display()));
            return Some(failure.tell());
        }
    }
    None
}

fn with_js(args: &NewArgs) -> String {
    args.file.with_extension("js").display().to_string()
}
