//! `volley completions` and `volley man`: made from the definition of the command line itself.

use std::path::Path;

use clap::CommandFactory;
use clap_complete::env::{Bash, Elvish, EnvCompleter, Fish, Powershell, Zsh};
use report::ExitCode;

use crate::cli::{Cli, Shell};
use crate::failure::Failure;
use crate::print;

/// The variable by which a shell's script asks this program for completions.
const ASKED_BY: &str = "COMPLETE";

pub fn completions(shell: Shell) -> ExitCode {
    let completer: &dyn EnvCompleter = match shell {
        Shell::Bash => &Bash,
        Shell::Zsh => &Zsh,
        Shell::Fish => &Fish,
        Shell::Elvish => &Elvish,
        Shell::Powershell => &Powershell,
    };
    let mut script = Vec::new();
    match completer.write_registration(ASKED_BY, "volley", "volley", "volley", &mut script) {
        Ok(()) => {
            print::out(&String::from_utf8_lossy(&script));
            ExitCode::Passed
        }
        Err(error) => Failure::failed(format!("completions could not be written: {error}")).tell(),
    }
}

pub fn man(dir: Option<&Path>) -> ExitCode {
    let command = Cli::command();
    let done = match dir {
        Some(dir) => std::fs::create_dir_all(dir)
            .and_then(|()| clap_mangen::generate_to(command, dir))
            .map(|()| eprintln!("volley: the pages are in {}", dir.display())),
        None => {
            let mut page = Vec::new();
            let rendered = clap_mangen::Man::new(command).render(&mut page);
            rendered.map(|()| print::out(&String::from_utf8_lossy(&page)))
        }
    };
    match done {
        Ok(()) => ExitCode::Passed,
        Err(error) => {
            let place = dir.map(|dir| format!("{}: ", dir.display())).unwrap_or_default();
            let what = "the manual pages could not be written";
            Failure::failed(format!("{what}: {place}{error}")).tell()
        }
    }
}
