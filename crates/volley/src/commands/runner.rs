//! From a plan to an exit code: outputs opened, view shown, run led, summary printed.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;

use engine::{Conductor, Control, Controller, RunOptions, Trace};
use plan::Plan;
use report::outputs::{SampleWriter, Written, check_targets, check_writable, write_results};
use report::text::Look;
use report::{About, ExitCode, Summary};
use stats::RunResult;

use super::ctl::ControlSocket;
use super::page::{self, Page};
use super::report as keep;
use crate::cli::OutputArgs;
use crate::failure::Failure;
use crate::{print, signals};

/// How the result is told on the terminal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Style {
    Full,
    /// About as long as wrk's.
    Brief,
}

/// Runs a plan and tells what came of it; the exit code.
pub fn run_plan(
    plan: Plan,
    file: Option<&Path>,
    output: &OutputArgs,
    style: Style,
    trace: Option<Trace>,
) -> ExitCode {
    if let Err(problems) = check_outputs(output) {
        for problem in problems {
            eprintln!("volley: {problem}");
        }
        return ExitCode::InvalidPlan;
    }
    let debug = trace.is_some();
    let cores = output.cores.map_or_else(engine::machine::cores, usize::from);
    let about = About {
        plan: Some(super::explain::describe_json(&plan, cores)),
        schedule: Some(super::explain::schedule_json(&plan)),
        ..keep::about(file, None)
    };
    let options = RunOptions { cores: output.cores_here(), trace, ..RunOptions::default() };
    let (mut conductor, controller) = match Conductor::new(plan, options) {
        Ok(ready) => ready,
        Err(error) => return Failure::invalid(error).tell(),
    };
    let writer = match SampleWriter::start(&output.output, conductor.layout()) {
        Ok(writer) => writer,
        Err(problems) => {
            problems.iter().for_each(|problem| eprintln!("volley: {problem}"));
            return ExitCode::InvalidPlan;
        }
    };
    if let Some(writer) = &writer {
        conductor.set_sample_sink(writer.sink());
    }
    let page = match Page::open(&output.web, &about, &mut conductor, &controller) {
        Ok(page) => page,
        Err(failure) => return failure.tell(),
    };
    let interrupt = controller.clone();
    signals::on_interrupt_or_hangup(move || interrupt.send(Control::Interrupt));
    let nothing = dashboard::Words::default();
    let result = lead(conductor, &controller, output, view_mode(output, debug), nothing);
    let mut result = match result {
        Ok(result) => result,
        Err(error) => return Failure::failed(error).tell(),
    };
    if let Some(writer) = writer {
        result.notes.extend(notes_of(writer.finish()));
    }
    result.fail_on = output.fail_on.unwrap_or(result.fail_on);
    let written = write_results(&output.output, &result);
    result.notes.extend(notes_of(written));
    page::leave(&result, output, &about, page.as_ref());
    let code = tell(&result, output, style);
    if style == Style::Full && !debug {
        page::hint(output);
    }
    if let Some(page) = page {
        page.close();
    }
    code
}

/// What could not be written, for the summary. Standard output is for somebody who waits for it:
/// what is lost there is not passed.
pub fn notes_of(written: Written) -> Vec<String> {
    written.lost_on_stdout.iter().for_each(|what| print::lost(what));
    written.notes
}

/// Nothing was run, so what lies where results were to go is of an earlier run.
pub fn say_what_is_old(output: &OutputArgs) {
    let files = output.output.iter().map(|target| &target.path).chain(&output.summary);
    let kept = keep::files(&output.keep).map(|(_, path)| path);
    for path in files.chain(kept).filter(|path| path.is_file()) {
        let path = path.display();
        eprintln!("volley: nothing was run, and {path} stays as it was: it is of an earlier run");
    }
}

/// Outputs that would take the place of a file that this run reads; each input with what it is.
pub fn spare_inputs(output: &OutputArgs, inputs: &[(PathBuf, String)]) -> Vec<String> {
    let summary = output.summary.iter().map(|path| (path, "summary"));
    let files = output.output.iter().map(|target| (&target.path, target.format.name()));
    summary.chain(files).filter_map(|(path, what)| spare_input(path, what, inputs)).collect()
}

/// The same for one file that is written.
pub fn spare_input(path: &Path, what: &str, inputs: &[(PathBuf, String)]) -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    // By any name: links lead to the same file.
    let file = |path: &Path| std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file);
    let written = file(path)?;
    let same = |(input, _): &&(PathBuf, String)| {
        file(input).is_some_and(|read| (read.dev(), read.ino()) == (written.dev(), written.ino()))
    };
    let (_, whose) = inputs.iter().find(same)?;
    let shown = path.display();
    Some(format!("{what} {shown}: this is {whose}, which would be lost; choose another file"))
}

pub fn check_outputs(output: &OutputArgs) -> Result<(), Vec<String>> {
    let mut problems = check_targets(&output.output).err().unwrap_or_default();
    if let Some(path) = &output.summary {
        let shown = path.display();
        if let Some(other) = output.output.iter().find(|target| target.path == *path) {
            problems.push(format!(
                "`--summary {shown}` and `--output {other}` are the same file; give one of them another name"
            ));
        } else if !output.summary_on_stdout()
            && let Err(error) = check_writable(path)
        {
            problems.push(format!("summary {shown}: {error}"));
        }
    }
    let outputs = output.output.iter().map(|target| &*target.path);
    let taken: Vec<&Path> = outputs.chain(output.summary.as_deref()).collect();
    problems.extend(keep::check(&output.keep, &taken));
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

/// Which view the user, or the terminal, wants.
pub fn view_mode(output: &OutputArgs, debug: bool) -> dashboard::Mode {
    let quiet = output.quiet || debug;
    let on_terminal = std::io::stderr().is_terminal();
    output.view.filter(|_| !quiet).unwrap_or_else(|| {
        dashboard::Mode::choose(dashboard::Environment::of_process(quiet, on_terminal))
    })
}

/// Leads the run with this view; what is said meanwhile is shown above it.
pub fn lead(
    conductor: Conductor,
    controller: &Controller,
    output: &OutputArgs,
    mode: dashboard::Mode,
    words: dashboard::Words,
) -> Result<RunResult, engine::CompileError> {
    let on_terminal = std::io::stderr().is_terminal();
    let latest = dashboard::Latest::new();
    let (commands, keys) = channel();
    let color = dashboard::wants_color(output.no_color, on_terminal);
    let look = dashboard::Options { color, ..dashboard::Options::default() };
    let view = dashboard::View::start(mode, latest.clone(), commands, look, words);
    let steering = controller.clone();
    // Ends with the view, which owns the other end of the channel.
    let forward = move || {
        while let Ok(command) = keys.recv() {
            steering.send(match command {
                dashboard::Command::Pause => Control::Pause,
                dashboard::Command::Resume => Control::Resume,
                dashboard::Command::Scale(factor) => Control::Scale(factor),
                dashboard::Command::Stop => Control::Stop,
                dashboard::Command::Interrupt => Control::Interrupt,
            });
        }
    };
    let _keys = std::thread::Builder::new().name("volley-keys".to_owned()).spawn(forward);
    // A run without a control socket cannot be steered from outside; it is a run all the same.
    let _socket = ControlSocket::open(controller.clone(), latest.clone()).ok();
    let result = conductor.run(&mut |snapshot| latest.publish(snapshot));
    view.finish();
    result
}

/// Summary file, words on the terminal, exit code.
fn tell(result: &RunResult, output: &OutputArgs, style: Style) -> ExitCode {
    tell_on(result, output, style, false)
}

/// The same, with the words on standard error if they must be.
pub fn tell_on(result: &RunResult, output: &OutputArgs, style: Style, on_stderr: bool) -> ExitCode {
    let summary = Summary::new(result);
    if let Some(path) = &output.summary
        && let Err(error) = summary.write(path)
    {
        let what = format!("could not write the summary {}: {error}", path.display());
        match output.summary_on_stdout() {
            true => print::lost(&what),
            false => eprintln!("volley: {what}"),
        }
    }
    let exit = report::exit_code(result);
    let on_terminal = std::io::stdout().is_terminal();
    let color = dashboard::wants_color(output.no_color, on_terminal);
    let look = Look { width: terminal_width(), color };
    let text = match (output.quiet, style) {
        (true, _) => quiet_line(result, &exit),
        (false, Style::Full) => report::text::text(result, look),
        (false, Style::Brief) => report::text::brief(result, look),
    };
    if on_stderr || output.data_on_stdout() {
        let _ = std::io::stderr().write_all(print::shown(&text).as_bytes());
    } else {
        print::page(&text);
    }
    exit.code
}

/// All that `--quiet` says: passed or failed, what the result says of itself, and why.
pub fn quiet_line(result: &RunResult, exit: &report::Exit) -> String {
    let word = if exit.passed() { "passed" } else { "failed" };
    format!("{word}, {}: {}\n", result.verdict.state.name(), exit.reason)
}

fn terminal_width() -> usize {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the call fills the structure that it is given.
    let known = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &mut size) } == 0;
    if known && size.ws_col > 0 { usize::from(size.ws_col) } else { 100 }
}
