//! A datacenter of real processes, each of which can be killed and started again.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fleet::local::{LocalCluster, Place};
use serde_json::Value;
use trust::Role;

use crate::common::{Done, PATIENCE, Room, Running, VOLLEY};

/// Times of the protocols; a lease is short so that tests are.
const PACE: &str = "0.5";
pub const LEASE: Duration = Duration::from_secs(2);

pub struct Cluster {
    pub room: Room,
    pub local: LocalCluster,
    running: BTreeMap<String, Child>,
    cores: u32,
    /// Managers know each other by name.
    by_name: bool,
    /// Who may change the jobs of others.
    operators: Vec<String>,
}

/// With the next port free as well, for the ledger.
fn free_address() -> SocketAddr {
    loop {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let next = SocketAddr::new(address.ip(), address.port().wrapping_add(1));
        if TcpListener::bind(next).is_ok() {
            return address;
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for child in self.running.values_mut() {
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            for place in self.local.managers.iter().chain(&self.local.workers) {
                let log = std::fs::read_to_string(self.log(place)).unwrap_or_default();
                eprintln!("--- {}\n{log}", place.name);
            }
        }
    }
}

impl Cluster {
    /// Starts everything and waits until jobs can be submitted.
    pub fn start(managers: usize, workers: usize, cores: u32) -> Cluster {
        let mut cluster = Self::prepare(managers, workers, cores);
        cluster.up_all();
        cluster
    }

    /// Certificates and folders; nothing runs.
    pub fn prepare(managers: usize, workers: usize, cores: u32) -> Cluster {
        let room = Room::new();
        let local = LocalCluster::create(&room.path("dc"), managers, workers).unwrap();
        let (running, operators) = (BTreeMap::new(), Vec::new());
        Cluster { room, local, running, cores, by_name: false, operators }
    }

    pub fn up_all(&mut self) {
        let names: Vec<String> = self.places().map(|place| place.name.clone()).collect();
        names.iter().for_each(|name| self.up(name));
        self.until_ready(self.local.workers.len());
    }

    pub fn by_name(mut self) -> Self {
        self.by_name = true;
        self
    }

    pub fn operator(mut self, node: &str) -> Self {
        self.operators.push(node.to_owned());
        self
    }

    /// Another client: the folder of its certificate, and who it is.
    pub fn another_client(&self, name: &str) -> (PathBuf, String) {
        let folder = self.room.path(name);
        let ca = self.local.folder.join("ca");
        let (ca, out) = (ca.to_str().unwrap(), folder.to_str().unwrap());
        let issue = ["certs", "issue", "--ca", ca, "--role", "client", "--datacenter", "local"];
        self.room.volley(issue.into_iter().chain(["--out", out])).expect(0);
        let said = self.room.volley(["certs", "show", out]).expect(0);
        let marked = said.out.split_whitespace().skip_while(|word| *word != "node").nth(1);
        (folder, marked.unwrap_or_else(|| panic!("{}", said.out)).to_owned())
    }

    fn places(&self) -> impl Iterator<Item = &Place> {
        self.local.managers.iter().chain(&self.local.workers)
    }

    pub fn place(&self, name: &str) -> &Place {
        self.places().find(|place| place.name == name).unwrap()
    }

    fn log(&self, place: &Place) -> PathBuf {
        place.data.with_file_name("log")
    }

    /// Starts a node, or starts it again on what it has left.
    pub fn up(&mut self, name: &str) {
        let place = self.place(name).clone();
        let named = |address: &String| match self.by_name {
            true => address.replace("127.0.0.1", "localhost"),
            false => address.clone(),
        };
        let peers: Vec<String> = self.local.addresses().iter().map(named).collect();
        let peers = peers.join(",");
        let mut command = Command::new(VOLLEY);
        command.arg(place.role.to_string()).args(["--pace", PACE]);
        command.arg("--bind").arg(place.bind.to_string());
        command.arg("--certs").arg(&place.certs).arg("--data").arg(&place.data);
        if place.role == Role::Manager {
            command.arg("--peers").arg(peers);
            command.arg("--lease").arg(format!("{}ms", LEASE.as_millis()));
            if self.by_name {
                command.arg("--advertise").arg(format!("localhost:{}", place.bind.port()));
            }
            for operator in &self.operators {
                command.arg("--operator").arg(operator);
            }
            if let Some(ca) = self.local.ca_of(&place) {
                command.arg("--ca").arg(ca);
            }
        } else {
            command.arg("--seed").arg(peers).arg("--cores").arg(self.cores.to_string());
            command.env("VOLLEY_SECRET_TOKEN", "hush-hush");
        }
        let mut options = std::fs::OpenOptions::new();
        let log = options.create(true).append(true).open(self.log(&place)).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        self.running.insert(name.to_owned(), command.spawn().unwrap());
    }

    /// A manager that was not there from the beginning, with a certificate of its own; it waits to
    /// be let in.
    pub fn one_more_manager(&mut self, name: &str) -> Place {
        self.one_more_manager_at(name, free_address())
    }

    pub fn one_more_manager_at(&mut self, name: &str, bind: std::net::SocketAddr) -> Place {
        let (certs, ca) = (self.room.path(name), self.local.folder.join("ca"));
        let issue = ["certs", "issue", "--role", "manager", "--datacenter", "local", "--ca"];
        let paths = [ca.to_str().unwrap(), "--out", certs.to_str().unwrap()];
        self.room.volley(issue.into_iter().chain(paths)).expect(0);
        let said = self.room.volley(["certs", "show", certs.to_str().unwrap()]).expect(0);
        let node = said.out.split_whitespace().skip_while(|word| *word != "node").nth(1);
        let place = Place {
            name: name.to_owned(),
            role: Role::Manager,
            node: node.unwrap().parse().unwrap(),
            certs,
            data: self.room.path(&format!("{name}-home/data")),
            bind,
        };
        std::fs::create_dir_all(place.data.parent().unwrap()).unwrap();
        let seeds = self.local.addresses().join(",");
        let mut command = Command::new(VOLLEY);
        command.args(["manager", "--join-group", "--pace", PACE, "--seed", &seeds]);
        command.arg("--bind").arg(place.bind.to_string());
        command.arg("--lease").arg(format!("{}ms", LEASE.as_millis()));
        command.arg("--certs").arg(&place.certs).arg("--data").arg(&place.data);
        let log = std::fs::File::create(self.log(&place)).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        self.running.insert(name.to_owned(), command.spawn().unwrap());
        place
    }

    /// `kill -9`.
    pub fn kill(&mut self, name: &str) {
        let mut child = self.running.remove(name).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Stops a process where it stands, until [`Cluster::resume`].
    pub fn pause(&self, name: &str) {
        self.signal(name, "-STOP");
    }

    pub fn resume(&self, name: &str) {
        self.signal(name, "-CONT");
    }

    fn signal(&self, name: &str, signal: &str) {
        let pid = self.running[name].id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    /// The folder of the client's certificate.
    pub fn client(&self) -> &str {
        self.local.client.to_str().unwrap()
    }

    /// Waits until a node has ended by itself.
    pub fn ended(&mut self, name: &str) -> i32 {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.running.get_mut(name).unwrap().try_wait().unwrap() {
                self.running.remove(name);
                return status.code().unwrap_or(-1);
            }
            assert!(begin.elapsed() < PATIENCE, "{name} does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn said(&self, name: &str) -> String {
        std::fs::read_to_string(self.log(self.place(name))).unwrap()
    }

    fn args(&self, args: &[&str]) -> Vec<String> {
        let mut all: Vec<String> = args.iter().map(ToString::to_string).collect();
        for manager in self.local.addresses() {
            all.extend(["--manager".to_owned(), manager]);
        }
        all.extend(["--certs".to_owned(), self.local.client.display().to_string()]);
        all
    }

    /// A command of another client than usual.
    pub fn volley_as(&self, certs: &Path, args: &[&str]) -> Done {
        let mut args = self.args(args);
        *args.last_mut().unwrap() = certs.display().to_string();
        self.room.volley(args)
    }

    /// A command of a client.
    pub fn volley(&self, args: &[&str]) -> Done {
        self.room.volley(self.args(args))
    }

    pub fn begin(&self, args: &[&str]) -> Running {
        self.room.start(self.args(args))
    }

    /// What a command says as JSON.
    pub fn json(&self, args: &[&str]) -> Value {
        let done = self.volley(args).expect(0);
        serde_json::from_str(&done.out).unwrap_or_else(|error| panic!("{error}: {}", done.out))
    }

    pub fn until_ready(&self, workers: usize) {
        self.until("the cluster is ready", || {
            let done = self.volley(&["status", "--json"]);
            let Ok(status) = serde_json::from_str::<Value>(&done.out) else { return false };
            let nodes = status["nodes"].as_array().cloned().unwrap_or_default();
            let is_worker = |node: &&Value| {
                node["role"] == "worker" && node["state"] == "alive" && node["cores"] != 0
            };
            nodes.iter().any(|node| node["leads"] == true)
                && nodes.iter().filter(is_worker).count() == workers
        });
    }

    #[track_caller]
    pub fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        let begin = Instant::now();
        while !is_so() {
            assert!(begin.elapsed() < PATIENCE, "waited in vain: {what}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Hands a plan in; its job's id.
    pub fn submit(&self, plan: &str, more: &[&str]) -> String {
        let path = self.room.write("plan.yaml", plan);
        let mut args = vec!["submit", path.to_str().unwrap(), "--json"];
        args.extend(more);
        let said = self.json(&args);
        said["job"].as_str().unwrap().to_owned()
    }

    pub fn status(&self, job: &str) -> Value {
        self.json(&["status", job, "--json"])
    }

    /// Waits for a job's end and takes its summary.
    pub fn result(&self, job: &str, code: i32) -> Value {
        self.volley(&["watch", job, "--quiet", "--summary", "summary.json"]).expect(code);
        self.room.json("summary.json")
    }

    /// The name of the manager that owns a job.
    pub fn owner(&self, job: &str) -> String {
        let owner = self.status(job)["owner"].as_str().unwrap().to_owned();
        let found = self.local.managers.iter().find(|place| place.node.to_string() == owner);
        found.unwrap_or_else(|| panic!("{owner} is no manager")).name.clone()
    }

    /// The name of the manager that leads the ledger.
    pub fn leader(&self) -> String {
        let nodes = self.json(&["status", "--json"]);
        let nodes = nodes["nodes"].as_array().unwrap().clone();
        let leader = nodes.iter().find(|node| node["leads"] == true).expect("somebody leads");
        let leader = leader["node"].as_str().unwrap();
        let found = self.local.managers.iter().find(|place| place.node.to_string() == leader);
        found.unwrap().name.clone()
    }
}
