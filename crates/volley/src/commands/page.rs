//! The live page of a run on this machine: served while it goes on, and finished with its report.

use std::io::IsTerminal;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use engine::{Conductor, Control, Controller};
use report::{About, Record};
use stats::RunResult;
use web::{LiveRun, Server, Wish};

use crate::cli::{OutputArgs, WebArgs};
use crate::failure::Failure;

/// How long the command waits for pages to take their report. One that does not read gets none.
const LAST_WAIT: Duration = Duration::from_millis(150);
/// For an answer of the run.
const STEER_WAIT: Duration = Duration::from_secs(5);

pub struct Page {
    server: Server,
    live: Arc<LiveRun>,
}

impl Page {
    /// Serves it, if that was asked for, and says where; before any load.
    pub fn open(
        args: &WebArgs,
        about: &About,
        conductor: &mut Conductor,
        controller: &Controller,
    ) -> Result<Option<Page>, Failure> {
        let Some(listen) = args.web else { return Ok(None) };
        let controller = controller.clone();
        let steer = Box::new(move |wish| {
            let (controller, control) = (controller.clone(), control(wish));
            let asked = tokio::task::spawn_blocking(move || controller.ask(control, STEER_WAIT));
            let answer = async { asked.await.unwrap_or_else(|error| Err(error.to_string())) };
            Box::pin(answer) as web::Answer<String>
        });
        let live = LiveRun::new(about.clone(), steer);
        let options = web::Options { listen, hosts: args.web_host.clone() };
        let server = Server::start(&options, live.clone())
            .map_err(|error| Failure::invalid(error).at("--web"))?;
        conductor.set_progress_sink(live.clone());
        tell(&server, "the run");
        if args.open {
            show(&server.link());
        }
        Ok(Some(Page { server, live }))
    }

    /// The pages get the report.
    pub fn finish(&self, record: &Record) {
        self.live.finish(record);
    }

    pub fn close(self) {
        self.server.close(LAST_WAIT);
    }
}

fn control(wish: Wish) -> Control {
    match wish {
        Wish::Pause => Control::Pause,
        Wish::Resume => Control::Resume,
        Wish::Scale(factor) => Control::Scale(factor),
        Wish::Stop => Control::Stop,
    }
}

/// Says where something is shown.
pub fn tell(server: &Server, what: &str) {
    if server.has_moved() {
        eprintln!("volley: port {} is in use, so the page is at {}", web::PORT, server.address());
    }
    eprintln!("volley: {what} is shown at {}", server.link());
}

/// Opens a link in the user's browser. Without one there is the printed link.
pub fn show(link: &str) {
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let quiet = || Stdio::null();
    let mut command = Command::new(opener);
    command.arg(link).stdin(quiet()).stdout(quiet()).stderr(quiet());
    match command.spawn() {
        // It ends by itself; somebody has to take its exit code.
        Ok(mut child) => drop(std::thread::spawn(move || drop(child.wait()))),
        Err(error) => eprintln!("volley: --open: {opener}: {error}; open the link yourself"),
    }
}

/// One line on how to look at a run again, for people who have no page of it.
pub fn hint(output: &OutputArgs) {
    let keeps = output.keep.report.is_some() || output.keep.record.is_some();
    if !keeps && output.web.web.is_none() && !output.quiet && std::io::stderr().is_terminal() {
        eprintln!(
            "\nAs a page with charts: --report run.html; in the browser while it runs: --web --open"
        );
    }
}

/// What is left of a run: files that were asked for, and the page's report.
pub fn leave(result: &RunResult, output: &OutputArgs, about: &About, page: Option<&Page>) {
    let keep = &output.keep;
    if keep.record.is_none() && keep.report.is_none() && page.is_none() {
        return;
    }
    let record = Record::new(result, about);
    if let Some(page) = page {
        page.finish(&record);
    }
    super::report::write(&record, keep, output.quiet);
}
