//! What end-to-end tests need: the real binary, a target of their own, a folder of their own.
//!
//! Nothing is shared between tests: ports are free ones, control sockets are in the test's folder,
//! and processes end with the test that started them.

pub mod scripts;

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

pub const VOLLEY: &str = env!("CARGO_BIN_EXE_volley");

/// No test waits longer than this for anything.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A folder that goes with the test, and the commands that are run in it.
pub struct Room {
    folder: TempDir,
}

impl Room {
    pub fn new() -> Room {
        Room { folder: tempfile::Builder::new().prefix("volley-test-").tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    pub fn json(&self, name: &str) -> Value {
        let text = std::fs::read_to_string(self.path(name)).unwrap();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}\n{text}"))
    }

    /// `volley`, in this folder, untouched by the environment of whoever runs the tests.
    pub fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(VOLLEY);
        let inherited = std::env::vars_os().map(|(name, _)| name);
        let ours = |name: &std::ffi::OsString| {
            let name = name.to_string_lossy().to_ascii_uppercase();
            name.starts_with("VOLLEY_")
                || name.starts_with("K6_")
                || name.ends_with("_PROXY")
                || name.starts_with("SSL_CERT_")
        };
        for name in inherited.filter(ours) {
            command.env_remove(name);
        }
        command.env_remove("NO_COLOR").env_remove("CI").env("TERM", "xterm-256color");
        command.env("XDG_RUNTIME_DIR", self.folder.path());
        // What the tests look for has characters beyond ASCII.
        command.env_remove("LC_ALL").env_remove("LC_CTYPE").env_remove("LANG");
        command.current_dir(self.folder.path()).args(args).stdin(Stdio::null());
        command
    }

    pub fn volley<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Done {
        finish(&mut self.command(args))
    }

    pub fn start<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Running {
        Running::start(&mut self.command(args))
    }
}

/// What a finished command has left.
#[derive(Debug)]
pub struct Done {
    /// -1: killed by a signal.
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Done {
    #[track_caller]
    pub fn expect(self, code: i32) -> Done {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.out, self.err);
        self
    }

    #[track_caller]
    pub fn says(self, part: &str) -> Done {
        let found = self.out.contains(part) || self.err.contains(part);
        assert!(found, "nothing says `{part}`; stdout:\n{}\nstderr:\n{}", self.out, self.err);
        self
    }
}

pub fn finish(command: &mut Command) -> Done {
    Running::start(command).wait()
}

/// A command under way; killed if the test ends before it.
pub struct Running {
    child: Child,
    readers: Vec<std::thread::JoinHandle<String>>,
}

impl Running {
    pub fn start(command: &mut Command) -> Running {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        Running { child, readers: vec![read_all(out), read_all(err)] }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: the process is a child that has not been waited for.
        assert_eq!(unsafe { libc::kill(self.pid() as i32, signal) }, 0);
    }

    #[track_caller]
    pub fn wait(mut self) -> Done {
        let begin = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break Some(status);
            }
            if begin.elapsed() > PATIENCE {
                let _ = self.child.kill();
                break None;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let mut texts = self.readers.drain(..).map(|reader| reader.join().unwrap());
        let (out, err) = (texts.next().unwrap(), texts.next().unwrap());
        drop(texts);
        let status =
            status.unwrap_or_else(|| panic!("did not end; stdout:\n{out}\nstderr:\n{err}"));
        Done { code: status.code().unwrap_or(-1), out, err }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_all(mut stream: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// `volley target` on a free port.
pub struct Target {
    child: Child,
    pub address: SocketAddr,
}

impl Target {
    pub fn start() -> Target {
        Target::with(&[])
    }

    pub fn with(args: &[&str]) -> Target {
        Target::listening("127.0.0.1:0", args)
    }

    pub fn at(address: SocketAddr) -> Target {
        Target::listening(&address.to_string(), &[])
    }

    fn listening(address: &str, args: &[&str]) -> Target {
        let mut command = Command::new(VOLLEY);
        command.args(["target", "--listen", address]).args(args);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let (tell, told) = channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let _ = lines.read_line(&mut line);
            let _ = tell.send(line);
            // Whatever it says later must find a reader.
            let _ = std::io::copy(&mut lines, &mut std::io::sink());
        });
        let line = told.recv_timeout(PATIENCE).unwrap();
        let address = line.split(['/', ';']).find_map(|part| part.parse().ok());
        Target { child, address: address.unwrap_or_else(|| panic!("no address in `{line}`")) }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What it has counted.
    pub fn seen(&self) -> Value {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let request = b"GET /volley/seen HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        stream.write_all(request).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
    }

    pub fn total(&self) -> u64 {
        self.seen()["total"].as_u64().unwrap()
    }

    /// Load has arrived.
    pub fn wait_for_requests(&self, count: u64) {
        until(&format!("the target has seen {count} requests"), || self.total() >= count);
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[track_caller]
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// An address where nobody listens.
pub fn closed_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// A plan with one workflow of one step, `get: /`.
pub fn plan(url: &str, load: &str) -> String {
    format!(
        "name: small\ntarget: {url}\nworkflows:\n  - name: main\n    load: {{ {load} }}\n    \
         steps: [ {{ name: home, get: / }} ]\n"
    )
}

/// The same as so many shards, where one core would do.
pub fn plan_on(cores: u32, url: &str, load: &str) -> String {
    plan(url, load).replace("    load:", &format!("    cores: {cores}\n    load:"))
}
