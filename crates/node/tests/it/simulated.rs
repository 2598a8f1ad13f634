//! The same members on a simulated network: plain streams, gossip as a task, time that is only
//! counted.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fence::NodeId;
use futures_util::future::BoxFuture;
use futures_util::stream;
use membership::agent::{Agent, AgentConfig, Datagrams};
use membership::discovery::Seed;
use membership::heartbeat::{Beat, Overload, Stage, Work, WorkerBeat};
use membership::{Role, State};
use node::network::{Caller, ConnectError, Connection, Listener, Network};
use node::secret::GossipKey;
use node::vitals::Vitals;
use node::{Config, CredentialFiles, Entropy, Host, Member, Platform};
use tempfile::TempDir;
use trust::{Expected, Gates, Identity};
use turmoil::net::{TcpListener, TcpStream, UdpSocket};

const PORT: u16 = 7500;

/// The network of one host.
struct Simulated;

struct Socket(UdpSocket);

impl Datagrams for Socket {
    fn readable(&self) -> impl Future<Output = io::Result<()>> + Send {
        self.0.readable()
    }

    fn try_recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.0.try_recv_from(buffer)
    }

    fn try_send_to(&self, bytes: &[u8], to: SocketAddr) -> io::Result<usize> {
        self.0.try_send_to(bytes, to)
    }
}

impl Network for Simulated {
    fn connect(
        &self,
        address: &str,
        _: Expected,
    ) -> BoxFuture<'static, Result<Connection, ConnectError>> {
        let address = address.to_owned();
        Box::pin(async move {
            let failed = |error| ConnectError::Io { address: address.clone(), error };
            let stream = TcpStream::connect(address.as_str()).await.map_err(failed)?;
            let caller = Caller { address: stream.peer_addr().map_err(failed)?, peer: None };
            Ok(Connection::new(stream, caller))
        })
    }

    fn listen(&self, address: SocketAddr) -> BoxFuture<'static, io::Result<Listener>> {
        Box::pin(async move {
            let listener = TcpListener::bind(address).await?;
            let incoming = stream::unfold(listener, |listener| async move {
                loop {
                    if let Ok((stream, address)) = listener.accept().await {
                        let connection = Connection::new(stream, Caller { address, peer: None });
                        return Some((connection, listener));
                    }
                }
            });
            Ok(Listener { address, incoming: Box::pin(incoming) })
        })
    }

    fn gossip(&self, config: AgentConfig) -> BoxFuture<'static, io::Result<Agent>> {
        Box::pin(async move {
            let socket = UdpSocket::bind(config.bind).await?;
            Ok(Agent::start_task(config, Socket(socket)))
        })
    }
}

fn config(folder: &TempDir, number: u128, address: IpAddr, seeds: &[IpAddr]) -> Config {
    let nowhere = CredentialFiles { certificate: "".into(), key: "".into(), ca: "".into() };
    let key = GossipKey(std::array::from_fn(|i| (i as u8).wrapping_mul(11).wrapping_add(3)));
    let mut config = Config::new(folder.path().join(number.to_string()), nowhere, key);
    config.bind = SocketAddr::from(([0, 0, 0, 0], PORT));
    config.advertise = Some(SocketAddr::new(address, PORT));
    config.gates = Gates::None;
    config.seeds = seeds.iter().map(|ip| Seed::Address(SocketAddr::new(*ip, PORT))).collect();
    config.entropy = Entropy::Seed(number as u64);
    let beat = Beat::Worker(WorkerBeat {
        accepting: true,
        cores: 4,
        cores_free: 4,
        ..WorkerBeat::default()
    });
    config.report = Some(Arc::new(move || Vitals {
        stage: Stage::Active,
        overload: Overload::Healthy,
        work: Work::default(),
        beat,
    }));
    config
}

fn identity(number: u128) -> Identity {
    Identity {
        cluster: "sim".into(),
        environment: "ci".into(),
        role: Role::Manager,
        datacenter: "fra".into(),
        node: NodeId(number),
    }
}

/// What one member sees of another: node, boot, state.
type Row = (u128, u64, State);
type Seen = Arc<Mutex<Vec<Row>>>;
type Holds<'a> = &'a dyn Fn(&[Row]) -> bool;

/// Five members at the pace of a datacenter form, lose one that crashes, and see it come back as a
/// later life. Minutes pass in it that nobody waits for.
#[test]
fn members_run_on_a_simulated_network() {
    let folder = Arc::new(TempDir::new().unwrap());
    let mut sim = turmoil::Builder::new()
        .rng_seed(7)
        .simulation_duration(Duration::from_secs(300))
        .tick_duration(Duration::from_millis(5))
        .enable_tokio_io()
        .build();
    let seen = Seen::default();
    for number in 1..=5u128 {
        let (folder, seen) = (Arc::clone(&folder), Arc::clone(&seen));
        sim.host(format!("m{number}"), move || {
            let (folder, seen) = (Arc::clone(&folder), Arc::clone(&seen));
            async move {
                let me = turmoil::lookup(format!("m{number}"));
                let seeds: Vec<_> =
                    (number > 1).then(|| turmoil::lookup("m1")).into_iter().collect();
                let config = config(&folder, number, me, &seeds);
                let platform = Platform {
                    identity: identity(number),
                    network: Arc::new(Simulated),
                    disk: Arc::new(wal::RealDisk),
                    host: Host::Simulated,
                };
                let member = Member::start_on(config, platform).await?;
                loop {
                    tokio::time::sleep(Duration::from_millis(200)).await;
                    if number == 2 && member.is_ready() {
                        *seen.lock().unwrap() = member
                            .view()
                            .entries
                            .iter()
                            .map(|entry| (entry.peer.node.0, entry.peer.boot.0, entry.state))
                            .collect();
                    }
                }
            }
        });
    }
    sim.client("observer", async {
        tokio::time::sleep(Duration::from_secs(290)).await;
        Ok(())
    });
    let until = |sim: &mut turmoil::Sim<'_>, what: &str, holds: Holds<'_>| {
        for _ in 0..20_000 {
            if holds(&seen.lock().unwrap()) {
                return;
            }
            sim.step().unwrap();
        }
        panic!("{what} did not come about: {:?}", seen.lock().unwrap());
    };
    let all = |rows: &[Row]| {
        rows.len() == 4 && rows.iter().all(|(_, _, state)| *state == State::Confirmed)
    };
    until(&mut sim, "a cluster of five", &all);
    sim.crash("m4");
    until(&mut sim, "the death", &|rows| rows.contains(&(4, 1, State::Dead)));
    sim.bounce("m4");
    until(&mut sim, "the second life", &|rows| {
        rows.contains(&(4, 2, State::Confirmed)) && all(rows)
    });
}
