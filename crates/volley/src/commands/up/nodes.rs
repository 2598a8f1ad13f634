//! The nodes of `volley up`: in this process, or each in a process of its own.

use std::process::{Child, Command, Stdio};
use std::task::Poll;
use std::time::{Duration, Instant};

use fleet::local::{LocalCluster, Place};
use fleet::manager::{self, Manager};
use fleet::worker::{self, Worker, WorkerConfig};
use tokio::task::JoinSet;
use trust::Role;

use super::Shape;
use crate::failure::Failure;

/// How long a farewell may take.
const FAREWELL: Duration = Duration::from_secs(5);

/// A node in this process.
pub enum Node {
    Manager(Box<Manager>),
    Worker(Box<Worker>),
}

impl Node {
    /// Waits until it has to end, and says why. `None`: it was drained.
    async fn ended(&self) -> Option<String> {
        match self {
            Self::Manager(manager) => match manager.ended().await {
                manager::Ended::Drained => None,
                ended => Some(ended.to_string()),
            },
            Self::Worker(worker) => match worker.ended().await {
                worker::End::Drained => None,
                ended => Some(ended.to_string()),
            },
        }
    }

    async fn leave(self) {
        match self {
            // What was not finished in time is cut off.
            Self::Manager(manager) => drop(manager.leave(FAREWELL).await),
            Self::Worker(worker) => worker.shutdown(FAREWELL).await,
        }
    }
}

/// The nodes, wherever they run.
pub enum Nodes {
    Here(Vec<(Place, Node)>),
    Processes(Vec<(Place, Child)>),
}

/// Starts each node in this process.
pub async fn start(shape: Shape, local: &LocalCluster) -> Result<Nodes, Failure> {
    let mut nodes = Vec::new();
    for place in &local.managers {
        let config = local.manager_config(place).map_err(Failure::failed)?;
        let mut config = config;
        config.member.pace = shape.pace;
        config.settings.lease = fence::LeaseTerms::new(shape.lease);
        let started = Manager::start(config).await;
        let manager = started.map_err(|error| Failure::failed(error).at(&place.name))?;
        nodes.push((place.clone(), Node::Manager(Box::new(manager))));
    }
    for place in &local.workers {
        let mut config = local.node_config(place).map_err(Failure::failed)?;
        config.pace = shape.pace;
        let started = Worker::start(WorkerConfig::new(config, shape.cores)).await;
        let worker = started.map_err(|error| Failure::failed(error).at(&place.name))?;
        nodes.push((place.clone(), Node::Worker(Box::new(worker))));
    }
    Ok(Nodes::Here(nodes))
}

/// Starts each node as a process of its own.
pub fn spawn(shape: Shape, local: &LocalCluster) -> Result<Vec<(Place, Child)>, Failure> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::failed(format!("where is this program? {error}")))?;
    let peers: Vec<String> = local.addresses();
    let mut children = Vec::new();
    for place in local.managers.iter().chain(&local.workers) {
        let mut command = Command::new(&program);
        let (role, bind, pace) =
            (place.role.to_string(), place.bind.to_string(), shape.pace.to_string());
        command.args([&role[..], "--bind", &bind, "--pace", &pace]);
        command.arg("--certs").arg(&place.certs).arg("--data").arg(&place.data);
        if shape.restart {
            command.arg("--restart");
        }
        if place.role == Role::Manager {
            command.arg("--peers").arg(peers.join(","));
            command.arg("--lease").arg(format!("{}ms", shape.lease.as_millis()));
            if let Some(ca) = local.ca_of(place) {
                command.arg("--ca").arg(ca);
            }
        } else {
            command.arg("--seed").arg(peers.join(","));
            command.arg("--cores").arg(shape.cores.to_string());
        }
        // What a node says goes into its folder, not among the others' words.
        let log = place.data.with_file_name("log");
        let fail = |error: std::io::Error| Failure::failed(error).at(log.display());
        let file = std::fs::File::create(&log).map_err(fail)?;
        let copy = file.try_clone().map_err(fail)?;
        command.stdin(Stdio::null()).stdout(file).stderr(copy);
        let child = command.spawn().map_err(|error| Failure::failed(error).at(&place.name))?;
        children.push((place.clone(), child));
    }
    Ok(children)
}

impl Nodes {
    /// Every node with the process it runs in.
    pub fn places(&self) -> Vec<(Place, u32)> {
        match self {
            Self::Here(nodes) => {
                nodes.iter().map(|(place, _)| (place.clone(), std::process::id())).collect()
            }
            Self::Processes(children) => {
                children.iter().map(|(place, child)| (place.clone(), child.id())).collect()
            }
        }
    }

    pub fn any_left(&self) -> bool {
        match self {
            Self::Here(nodes) => !nodes.is_empty(),
            Self::Processes(children) => !children.is_empty(),
        }
    }

    /// Waits until one of them has to end or has ended, and says which one it is and why it ended.
    pub async fn one_ended(&mut self) -> (usize, Option<String>) {
        match self {
            Self::Here(nodes) => {
                let ends = nodes.iter().map(|(_, node)| Box::pin(node.ended()));
                let mut ends: Vec<_> = ends.collect();
                std::future::poll_fn(|context| {
                    for (at, end) in ends.iter_mut().enumerate() {
                        if let Poll::Ready(why) = end.as_mut().poll(context) {
                            return Poll::Ready((at, why));
                        }
                    }
                    Poll::Pending
                })
                .await
            }
            Self::Processes(children) => loop {
                let ended = children
                    .iter_mut()
                    .position(|(_, child)| matches!(child.try_wait(), Ok(Some(_)) | Err(_)));
                if let Some(at) = ended {
                    return (at, None);
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            },
        }
    }

    /// One of them is done: it says goodbye, and what became of it is told.
    pub async fn let_go(&mut self, (at, why): (usize, Option<String>)) -> String {
        let name = match self {
            Self::Here(nodes) => {
                let (place, node) = nodes.remove(at);
                node.leave().await;
                place.name
            }
            Self::Processes(children) => children.remove(at).0.name,
        };
        match why {
            Some(why) => format!("{name} has ended: {why}"),
            None => format!("{name} has ended"),
        }
    }

    pub async fn end(self) {
        match self {
            Self::Here(nodes) => {
                let is_worker = |(_, node): &(Place, Node)| matches!(node, Node::Worker(_));
                let (workers, managers) = nodes.into_iter().partition::<Vec<_>, _>(is_worker);
                // Workers first: they have something to tell to managers. A farewell takes a
                // second, and all of a kind say it together.
                for together in [workers, managers] {
                    let leave = |(_, node): (Place, Node)| node.leave();
                    together.into_iter().map(leave).collect::<JoinSet<()>>().join_all().await;
                }
            }
            Self::Processes(mut children) => {
                for (_, child) in &children {
                    // SAFETY: a signal to a child that was not waited for, so its pid is its own.
                    unsafe { libc::kill(child.id().cast_signed(), libc::SIGTERM) };
                }
                let until = Instant::now() + FAREWELL;
                while !children.is_empty() && Instant::now() < until {
                    children.retain_mut(|(_, child)| !matches!(child.try_wait(), Ok(Some(_))));
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                for (_, mut child) in children {
                    let _ = child.kill();
                    let _ = child.wait();
                }
            }
        }
    }
}
