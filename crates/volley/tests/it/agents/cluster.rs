//! Agents as processes: each with certificates, a data folder and addresses of its own.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::common::{Done, PATIENCE, Room, Running, closed_port, finish, until};

/// A fifth of the usual times: a probe every 200 ms.
pub const PACE: &str = "0.2";

/// Puts a command on the machine of an agent; the plain one leaves it here.
pub type Placing = Box<dyn Fn(usize, &mut Command)>;

pub struct Agent {
    pub node: String,
    pub bind: SocketAddr,
    pub metrics: SocketAddr,
    pub running: Option<Running>,
}

pub struct Cluster {
    pub room: Room,
    pub agents: Vec<Agent>,
    placing: Placing,
}

impl Cluster {
    /// Certificates for `size` managers on free ports of this machine, none of them started.
    pub fn new(size: usize) -> Cluster {
        Cluster::placed(size, |_| (closed_port(), closed_port()), Box::new(|_, _| {}))
    }

    /// The same with addresses (of the member, of its metrics) and machines.
    pub fn placed(
        size: usize,
        addresses: impl Fn(usize) -> (SocketAddr, SocketAddr),
        placing: Placing,
    ) -> Cluster {
        let room = Room::new();
        room.volley(["certs", "init", "ca"]).expect(0);
        issue(&room, "ca", "client", "me");
        let agents = (0..size)
            .map(|at| {
                let node = issue(&room, "ca", "manager", &format!("c{at}"));
                let (bind, metrics) = addresses(at);
                Agent { node, bind, metrics, running: None }
            })
            .collect();
        Cluster { room, agents, placing }
    }

    /// All of them, each with the first as its seed, and waits until all know all.
    pub fn formed(mut self) -> Cluster {
        (0..self.agents.len()).for_each(|at| self.start(at));
        self.wait_until_all_know_all();
        self
    }

    pub fn command(&self, at: usize, args: &[&str]) -> Command {
        let mut command = self.room.command(args);
        (self.placing)(at, &mut command);
        command
    }

    /// The arguments that start an agent.
    pub fn args(&self, at: usize) -> Vec<String> {
        let agent = &self.agents[at];
        let mut args =
            vec!["debug".to_owned(), "agent".to_owned(), "--certs".to_owned(), format!("c{at}")];
        args.extend(["--data".to_owned(), format!("d{at}"), "--pace".to_owned(), PACE.to_owned()]);
        args.extend(["--bind".to_owned(), agent.bind.to_string()]);
        args.extend(["--metrics".to_owned(), agent.metrics.to_string()]);
        if at > 0 {
            args.extend(["--seed".to_owned(), self.agents[0].bind.to_string()]);
        }
        args
    }

    pub fn start(&mut self, at: usize) {
        let args = self.args(at);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let mut command = self.command(at, &args);
        command.env("VOLLEY_METRICS_BEYOND_LOOPBACK", "1");
        self.agents[at].running = Some(Running::start(&mut command));
    }

    /// Sends a signal and waits for the end.
    pub fn end(&mut self, at: usize, signal: i32) -> Done {
        let running = self.agents[at].running.take().unwrap();
        running.signal(signal);
        running.wait()
    }

    /// `volley debug members` at an agent, with more arguments.
    pub fn ask(&self, at: usize, more: &[&str]) -> Done {
        let address = self.agents[at].bind.to_string();
        let mut args = vec!["debug", "members", "--certs", "me", "--address", &address];
        args.extend(more);
        finish(&mut self.command(at, &args))
    }

    /// The node table as an agent sees it; nothing if it does not answer.
    pub fn table(&self, at: usize) -> Option<Value> {
        serde_json::from_str(&self.ask(at, &["--json", "--timeout", "2s"]).out).ok()
    }

    /// What an agent knows of another.
    pub fn row(&self, at: usize, of: usize) -> Option<Value> {
        let table = self.table(at)?;
        let mut rows = table["members"].as_array()?.iter();
        rows.find(|row| row["node"] == self.agents[of].node.as_str()).cloned()
    }

    pub fn state(&self, at: usize, of: usize) -> String {
        let row = self.row(at, of);
        row.and_then(|row| row["state"].as_str().map(str::to_owned)).unwrap_or_default()
    }

    /// How many an agent holds for alive, itself included.
    pub fn confirmed(&self, at: usize) -> u64 {
        self.table(at).and_then(|table| table["totals"]["confirmed"].as_u64()).unwrap_or(0)
    }

    #[track_caller]
    pub fn wait_until_all_know_all(&self) {
        let running: Vec<usize> =
            (0..self.agents.len()).filter(|at| self.agents[*at].running.is_some()).collect();
        until("all know all", || {
            running.iter().all(|at| self.confirmed(*at) == running.len() as u64)
        });
    }

    /// The value of a metric, summed over its labels that contain `label`. Only for agents of this
    /// machine's network.
    pub fn metric(&self, at: usize, name: &str, label: &str) -> f64 {
        let text = self.get(at, "/metrics");
        let fits = |line: &&str| {
            line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']))
                && line.contains(label)
        };
        let value =
            |line: &str| line.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok());
        text.lines().filter(fits).filter_map(value).sum()
    }

    /// An answer of its HTTP endpoints; empty while it is not up.
    pub fn get(&self, at: usize, path: &str) -> String {
        let Ok(mut stream) = TcpStream::connect(self.agents[at].metrics) else {
            return String::new();
        };
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

/// `certs issue` with the name `node` for its files; the node's id.
pub fn issue(room: &Room, ca: &str, role: &str, out: &str) -> String {
    let args = ["certs", "issue", "--ca", ca, "--role", role, "--datacenter", "dc1", "--out", out];
    let done = room.volley(args.into_iter().chain(["--name", "node", "--json"])).expect(0);
    let made: Value = serde_json::from_str(&done.out).unwrap();
    made["node"].as_str().unwrap().to_owned()
}

/// The changes that a `--watch --json` has shown of one node: where it went, in order.
pub fn steps(shown: &str, node: &str) -> Vec<String> {
    let events = shown.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let of_node = events.filter(|event| event["change"]["node"] == node);
    of_node.map(|event| event["change"]["to"].as_str().unwrap_or("forgotten").to_owned()).collect()
}

/// For the agents to do what they do.
pub fn let_pass(time: Duration) {
    std::thread::sleep(time);
}
