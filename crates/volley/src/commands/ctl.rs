//! `volley ctl`: a running test listens on a Unix socket of its own, for its own user only.
//!
//! One request per connection: a line of JSON in, a line of JSON out.

mod words;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use dashboard::Latest;
use engine::{Control, Controller};
use report::ExitCode;
use serde_json::{Value, json};

use crate::cli::{CtlAction, CtlArgs};
use crate::failure::Failure;
use crate::print;

/// Longest request or answer; both are a few hundred bytes.
const LINE_BYTES_MAX: u64 = 64 << 10;
/// As many as a plan may have.
const VUS_MAX: u32 = 1_000_000;
const PATIENCE: Duration = Duration::from_secs(5);

/// The folder of all control sockets of this user.
fn folder() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty()) {
        Some(dir) => PathBuf::from(dir).join("volley"),
        // SAFETY: cannot fail and changes nothing.
        None => std::env::temp_dir().join(format!("volley-{}", unsafe { libc::getuid() })),
    }
}

/// Listens while a run goes on; the socket file goes when this is dropped.
pub struct ControlSocket {
    path: PathBuf,
}

impl ControlSocket {
    pub fn open(controller: Controller, latest: Latest) -> std::io::Result<ControlSocket> {
        let folder = folder();
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        // Somebody else's folder of that name in a shared /tmp must not get our commands.
        // SAFETY: cannot fail and changes nothing.
        if std::fs::metadata(&folder)?.uid() != unsafe { libc::getuid() } {
            return Err(std::io::Error::other(format!("{} is not ours", folder.display())));
        }
        let path = folder.join(format!("{}.sock", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path)?;
        let serve = move || {
            for stream in listener.incoming().flatten() {
                let _ = answer(&stream, &controller, &latest);
            }
        };
        std::thread::Builder::new().name("volley-ctl".to_owned()).spawn(serve)?;
        Ok(ControlSocket { path })
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn answer(
    mut stream: &UnixStream,
    controller: &Controller,
    latest: &Latest,
) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new(stream.take(LINE_BYTES_MAX)).read_line(&mut line)?;
    let reply = match serde_json::from_str::<Value>(&line) {
        Ok(request) => obey(&request, controller, latest),
        Err(error) => json!({ "error": format!("not JSON: {error}") }),
    };
    writeln!(stream, "{reply}")
}

fn obey(request: &Value, controller: &Controller, latest: &Latest) -> Value {
    let workflow = request["workflow"].as_str().map(str::to_owned);
    let control = match request["do"].as_str().unwrap_or_default() {
        "status" => return status(latest),
        "pause" => Control::Pause,
        "resume" => Control::Resume,
        "stop" => Control::Stop,
        "scale" => {
            match (request["vus"].as_u64(), request["rate"].as_str(), request["by"].as_f64()) {
                (Some(vus), ..) => Control::SetVus {
                    workflow,
                    vus: u32::try_from(vus).unwrap_or(u32::MAX).min(VUS_MAX),
                },
                (_, Some(rate), _) => match plan::units::rate(rate) {
                    Ok(rate) => Control::SetRate { workflow, rate },
                    Err(wrong) => return json!({ "error": wrong.to_string() }),
                },
                (_, _, Some(factor)) => Control::Scale(factor),
                _ => return json!({ "error": "scale needs vus, rate or by" }),
            }
        }
        other => return json!({ "error": format!("unknown command `{other}`") }),
    };
    match controller.ask(control, PATIENCE) {
        Ok(done) => json!({ "ok": done }),
        Err(error) => json!({ "error": error }),
    }
}

fn status(latest: &Latest) -> Value {
    let Some(snapshot) = latest.get() else { return json!({ "ok": "preparing" }) };
    let workflows: Vec<Value> = snapshot
        .workflows
        .iter()
        .map(|one| {
            json!({
                "name": one.name, "state": format!("{:?}", one.state).to_lowercase(),
                "progress": (one.progress * 1000.0).round() / 1000.0, "load": one.load,
                "stage": one.stage, "vus": one.vus, "iterations": one.iterations,
                "dropped": one.dropped,
            })
        })
        .collect();
    json!({
        "ok": {
            "plan": snapshot.plan, "pid": std::process::id(),
            "state": format!("{:?}", snapshot.state).to_lowercase(),
            "elapsed_s": snapshot.elapsed.as_secs_f64(),
            "planned_s": snapshot.planned.map(|planned| planned.as_secs_f64()),
            "requests": snapshot.total.requests, "failed": snapshot.total.failed,
            "under_way": snapshot.total.under_way,
            "rate": snapshot.total.rate, "p95_ms": snapshot.total.p95_ms, "vus": snapshot.total.vus,
            "workflows": workflows,
        }
    })
}

pub fn ctl(args: &CtlArgs) -> ExitCode {
    if let Some(job) = &args.job {
        return super::fleet::steer(args, job);
    }
    let request = match &args.action {
        CtlAction::Status { .. } => json!({ "do": "status" }),
        CtlAction::Pause => json!({ "do": "pause" }),
        CtlAction::Resume => json!({ "do": "resume" }),
        CtlAction::Stop => json!({ "do": "stop" }),
        CtlAction::Scale { vus, rate, by, workflow } => {
            if vus.is_none() && rate.is_none() && by.is_none() {
                return Failure::usage("scale needs --vus, --rate or --by").tell();
            }
            let rate = rate.map(|rate| format!("{}/{}ms", rate.events, rate.per.as_millis()));
            json!({ "do": "scale", "vus": vus, "rate": rate, "by": by, "workflow": workflow })
        }
    };
    let socket = match find(args.run) {
        Ok(socket) => socket,
        Err(failure) => return failure.tell(),
    };
    match ask(&socket, &request) {
        Ok(reply) => show(&reply, matches!(args.action, CtlAction::Status { json: true })),
        Err(error) => not_answered(&error, &socket).tell(),
    }
}

/// Why a run has not answered.
fn not_answered(error: &std::io::Error, socket: &Path) -> Failure {
    use std::io::ErrorKind::{TimedOut, WouldBlock};
    let pid = socket.file_stem().unwrap_or_default().to_string_lossy();
    match error.kind() {
        WouldBlock | TimedOut => Failure::failed(format!("process {pid} does not answer")).help(
            format!("it may be suspended: `fg` in its shell or `kill -CONT {pid}` lets it go on"),
        ),
        _ => Failure::failed(error).at(socket.display()),
    }
}

/// Whether a test of this user runs on this machine.
pub fn is_any_running() -> bool {
    let entries = std::fs::read_dir(folder()).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| UnixStream::connect(entry.path()).is_ok())
}

/// The socket of the one run there is, or of the one that was named.
fn find(pid: Option<u32>) -> Result<PathBuf, Failure> {
    let folder = folder();
    let entries = std::fs::read_dir(&folder).map(Iterator::collect::<Vec<_>>).unwrap_or_default();
    let mut alive = Vec::new();
    for path in entries.into_iter().flatten().map(|entry| entry.path()) {
        // A run that was killed has left its socket behind.
        match UnixStream::connect(&path) {
            Ok(_) => alive.push(path),
            Err(_) => drop(std::fs::remove_file(&path)),
        }
    }
    let process = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    if let Some(pid) = pid {
        let wanted = pid.to_string();
        let found = alive.into_iter().find(|path| process(path) == wanted);
        return found.ok_or_else(|| {
            Failure::failed(format!("no run with process id {pid} on this machine"))
        });
    }
    match alive.len() {
        0 => {
            let failure = Failure::failed("no test is running on this machine (for this user)");
            let jobs = super::fleet::running_jobs();
            Err(match jobs.first() {
                None => failure,
                Some((id, name)) => failure.help(format!(
                    "on the cluster that is known here there is job {id} ({name}): `volley ctl --job {id} ...` \
                     steers it"
                )),
            })
        }
        1 => Ok(alive.remove(0)),
        _ => {
            let list: Vec<_> = alive.iter().map(|path| named(&process(path), path)).collect();
            Err(Failure::failed("several tests are running")
                .help(format!("choose one with --run: {}", list.join(", "))))
        }
    }
}

/// A process id says little to whoever started two plans.
fn named(process: &str, socket: &Path) -> String {
    let reply = ask(socket, &json!({ "do": "status" })).unwrap_or_default();
    match reply["ok"]["plan"].as_str() {
        Some(plan) => format!("{process} ({})", report::format::clean(plan)),
        None => format!("{process} (still preparing)"),
    }
}

fn ask(socket: &Path, request: &Value) -> std::io::Result<Value> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE * 2))?;
    writeln!(stream, "{request}")?;
    let mut line = String::new();
    BufReader::new(stream.take(LINE_BYTES_MAX)).read_line(&mut line)?;
    serde_json::from_str(&line).map_err(std::io::Error::other)
}

fn show(reply: &Value, as_json: bool) -> ExitCode {
    match (&reply["ok"], reply["error"].as_str()) {
        (_, Some(error)) => Failure::failed(error).tell(),
        (Value::String(text), _) if as_json => {
            print::line(&format!("{:#}", json!({ "state": text })));
            ExitCode::Passed
        }
        (Value::String(text), _) => {
            print::line(text);
            ExitCode::Passed
        }
        (status, _) if as_json => {
            print::line(&format!("{status:#}"));
            ExitCode::Passed
        }
        (status, _) => {
            print::page(&words::status(status));
            ExitCode::Passed
        }
    }
}
