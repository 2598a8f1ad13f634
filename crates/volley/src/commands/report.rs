//! `volley report RECORD`, and the files of `--record` and `--report`.

use std::path::{Path, PathBuf};

use report::outputs::check_writable;
use report::{About, ExitCode, Record};

use crate::cli::{KeepArgs, ReportArgs};
use crate::failure::Failure;
use crate::print;

pub fn report(args: &ReportArgs) -> ExitCode {
    let shown = args.record.display();
    let record = match Record::read(&args.record) {
        Ok(record) => record,
        Err(error) => return Failure::invalid(error).at(shown).tell(),
    };
    let page = report::html::page(&record);
    let path = args.output.clone().unwrap_or_else(|| args.record.with_extension("html"));
    if path.as_os_str() == "-" {
        print::out(&page);
        return ExitCode::Passed;
    }
    if path == args.record {
        let text = "the report would overwrite its record; give another name with `-o FILE.html`";
        return Failure::invalid(text).at(shown).tell();
    }
    match report::write_whole(&path, page.as_bytes()) {
        Ok(()) => {
            print::line(&format!("{} is the report; a browser opens it", path.display()));
            ExitCode::Passed
        }
        Err(error) => Failure::invalid(error).at(path.display()).tell(),
    }
}

/// What only the command knows of a run.
pub fn about(file: Option<&Path>, job: Option<String>) -> About {
    let name = file.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    About { version: env!("CARGO_PKG_VERSION").to_owned(), job, file: name, ..About::default() }
}

/// Files that cannot be written, and that would overwrite each other, before any load.
pub fn check(keep: &KeepArgs, taken: &[&Path]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut taken: Vec<&Path> = taken.to_vec();
    for (what, path) in files(keep) {
        let shown = path.display();
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        if what == "report" && ["json", "xml", "csv", "yaml", "md", "pdf"].contains(&ending) {
            problems.push(format!(
                "`--report {shown}` writes HTML: call it FILE.html; JSON is `--summary FILE`, JUnit `-o junit=FILE`"
            ));
            continue;
        }
        if taken.contains(&&**path) {
            problems.push(format!(
                "`--{what} {shown}` is the file of another output; give one of them another name"
            ));
        } else if let Err(error) = check_writable(path) {
            problems.push(format!("{what} {shown}: {error}"));
        }
        taken.push(path);
    }
    problems
}

pub fn files(keep: &KeepArgs) -> impl Iterator<Item = (&'static str, &PathBuf)> {
    let both = [("record", &keep.record), ("report", &keep.report)];
    both.into_iter().filter_map(|(what, path)| Some((what, path.as_ref()?)))
}

/// Writes what was asked for. A file that cannot be written changes no result: it is said.
pub fn write(record: &Record, keep: &KeepArgs, quiet: bool) {
    for (what, path) in files(keep) {
        let written = match what {
            "record" => record.write(path),
            _ => report::write_whole(path, report::html::page(record).as_bytes()),
        };
        match written {
            Ok(()) if what == "report" && !quiet => {
                eprintln!("volley: the report is {}; a browser opens it", path.display());
            }
            Ok(()) => {}
            Err(error) => {
                eprintln!("volley: could not write the {what} {}: {error}", path.display());
            }
        }
    }
}
