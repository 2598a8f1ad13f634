//! Servers that nobody here wrote, as child processes in a folder of their own.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A child that does not outlive its test, not even one that panics.
pub struct Server {
    child: Child,
    pub folder: tempfile::TempDir,
    pub ports: Vec<u16>,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// The program's path; says so and returns nothing if it is not installed.
pub fn find(program: &str) -> Option<PathBuf> {
    let folders = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/usr/local/sbin";
    let found = folders.split(':').map(|folder| Path::new(folder).join(program));
    let found = found.into_iter().find(|path| path.is_file());
    if found.is_none() {
        eprintln!("SKIPPED: {program} is not installed; `./test` installs it");
    }
    found
}

/// Ports that are free now. All are held until all are known, so they differ.
pub fn free_ports(count: usize) -> Vec<u16> {
    let held: Vec<_> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    held.iter().map(|listener| listener.local_addr().unwrap().port()).collect()
}

/// Starts `command` and waits until all `ports` answer; tries again with others if one was taken
/// meanwhile.
pub fn start(port_count: usize, prepare: impl Fn(&Path, &[u16]) -> Command) -> Server {
    let mut trouble = String::new();
    for _ in 0..3 {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let ports = free_ports(port_count);
        let log = folder.path().join("server.log");
        let output = std::fs::File::create(&log).unwrap();
        let mut command = prepare(folder.path(), &ports);
        command.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
        let child = command.spawn().expect("the server starts");
        let mut server = Server { child, folder, ports };
        if server.answers() {
            return server;
        }
        trouble = std::fs::read_to_string(&log).unwrap_or_default();
    }
    panic!("the server does not listen: {trouble}");
}

impl Server {
    fn answers(&mut self) -> bool {
        let until = Instant::now() + Duration::from_secs(10);
        let open = |port: u16| std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
        while Instant::now() < until {
            if self.ports.iter().all(|&port| open(port)) {
                return true;
            }
            if let Ok(Some(_)) = self.child.try_wait() {
                return false;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    }
}
