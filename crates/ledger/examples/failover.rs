//! Kills the leader of three real processes again and again, and measures how long nobody could
//! write.
//!
//! `cargo run --release -p ledger --example failover -- VOLLEY [kills] [folder]`, or
//! `bench/run failover`.
//!
//! Four writers write all the time, through members that are up. A failover lasts from the
//! `kill -9` to the first acknowledgement of a call that was *made* after it: an answer that was
//! already on its way proves nothing. The killed member is started again and has to have caught up
//! before the next one is killed. In the end every acknowledged write is asked for again: it must
//! be there, once, where it was acknowledged.

#![allow(clippy::disallowed_methods, reason = "measures real time, outside of any simulation")]

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fence::Epoch;
use ledger::client::Client;
use ledger::{NodeConfig, TcpTransport};
use ledger_state::{BlobRef, CreateJob, IdempotencyKey, Submission};
use tokio::time::sleep;

const MEMBERS: usize = 3;
const WRITERS: u64 = 4;
/// Between two writes of one writer.
const THINK: Duration = Duration::from_millis(10);
/// One call, before another member is asked.
const CALL: Duration = Duration::from_secs(2);
/// Longer than any step should take; beyond it the run is given up.
const PATIENCE: Duration = Duration::from_secs(60);
/// The aim, in election timeouts (p99).
const AIM: f64 = 3.0;

/// What the writers and the killer share.
#[derive(Default)]
struct Books {
    acks: Mutex<Vec<(IdempotencyKey, Epoch)>>,
    /// When the last kill was; only calls made after it count. None while nobody waits for one.
    since: Mutex<Option<Instant>>,
    /// When the first of those calls was acknowledged.
    first: Mutex<Option<Instant>>,
    stop: AtomicBool,
}

struct Group {
    volley: PathBuf,
    root: PathBuf,
    addresses: Vec<String>,
    running: Vec<Option<Child>>,
    client: Arc<Client>,
}

impl Drop for Group {
    fn drop(&mut self) {
        for child in self.running.iter_mut().flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

impl Group {
    fn new(volley: PathBuf, root: PathBuf) -> Result<Self, String> {
        let bind = |_| TcpListener::bind("127.0.0.1:0");
        let listeners: Result<Vec<_>, _> = (0..MEMBERS).map(bind).collect();
        let listeners = listeners.map_err(|error| error.to_string())?;
        let addresses: Result<Vec<_>, _> = listeners.iter().map(TcpListener::local_addr).collect();
        let addresses = addresses.map_err(|error| error.to_string())?;
        std::fs::create_dir_all(&root).map_err(|error| format!("{}: {error}", root.display()))?;
        let client = Arc::new(Client::new(Arc::new(TcpTransport)));
        let addresses = addresses.iter().map(ToString::to_string).collect();
        Ok(Self { volley, root, addresses, running: (0..MEMBERS).map(|_| None).collect(), client })
    }

    fn up(&mut self, member: usize) -> Result<(), String> {
        let child = Command::new(&self.volley)
            .args(["debug", "ledger", "serve"])
            .arg(self.root.join(member.to_string()))
            .args(["--listen", &self.addresses[member], "--peers", &self.addresses.join(",")])
            // A member that cannot reach the killed one says so at every heartbeat.
            .env("VOLLEY_LOG", std::env::var("VOLLEY_LOG").unwrap_or("off".to_owned()))
            .stdout(Stdio::null())
            .spawn();
        let child = child.map_err(|error| format!("{}: {error}", self.volley.display()))?;
        self.running[member] = Some(child);
        Ok(())
    }

    /// `kill -9`, and when it was sent.
    fn kill(&mut self, member: usize) -> Result<Instant, String> {
        let mut child = self.running[member].take().ok_or("it does not run")?;
        let now = Instant::now();
        child.kill().map_err(|error| error.to_string())?;
        child.wait().map_err(|error| error.to_string())?;
        Ok(now)
    }

    async fn leader(&self) -> Result<usize, String> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            for member in (0..MEMBERS).filter(|member| self.running[*member].is_some()) {
                let status = self.client.status(&self.addresses[member], CALL).await;
                if status.is_ok_and(|status| status.leads) {
                    return Ok(member);
                }
            }
            sleep(Duration::from_millis(5)).await;
        }
        Err("nobody leads".to_owned())
    }

    /// Waits until the member has applied what the leader had when this began.
    async fn caught_up(&self, member: usize) -> Result<(), String> {
        let leader = self.leader().await?;
        let status = self.client.status(&self.addresses[leader], CALL).await;
        let goal = status.map_err(|error| error.to_string())?.applied;
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            let status = self.client.status(&self.addresses[member], CALL).await;
            if status.is_ok_and(|status| status.applied >= goal) {
                return Ok(());
            }
            sleep(Duration::from_millis(10)).await;
        }
        Err(format!("member {member} does not catch up with entry {goal}"))
    }
}

fn job(key: &IdempotencyKey) -> CreateJob {
    CreateJob {
        tenant: "failover".to_owned(),
        key: key.clone(),
        fingerprint: [0; 32],
        name: "rehearsal".to_owned(),
        plan: BlobRef { hash: [0; 32], bytes: 0 },
        age_ms: 0,
        rehearsal: true,
    }
}

/// Submits one job until it is acknowledged; the answer, and when the call was made that brought
/// it.
async fn submit(
    client: &Client,
    addresses: &[String],
    at: &mut usize,
    key: &IdempotencyKey,
) -> Result<(Epoch, bool, Instant), String> {
    let began = Instant::now();
    loop {
        let made = Instant::now();
        let answer = client.submit(&addresses[*at % addresses.len()], &job(key), CALL).await;
        let said = match answer {
            Ok(Submission::Accepted { created, duplicate, .. }) => {
                return Ok((created, duplicate, made));
            }
            Ok(other) => format!("{other:?}"),
            Err(error) => error.to_string(),
        };
        if began.elapsed() > PATIENCE {
            return Err(format!("{key}: {said}"));
        }
        *at += 1;
        sleep(Duration::from_millis(5)).await;
    }
}

async fn write(
    writer: u64,
    client: Arc<Client>,
    addresses: Vec<String>,
    books: Arc<Books>,
) -> Result<(), String> {
    let mut at = writer as usize;
    for sequence in 0.. {
        if books.stop.load(Ordering::Relaxed) {
            break;
        }
        let key = IdempotencyKey { client: format!("w{writer}"), sequence, nonce: [0; 16] };
        let (created, _, made) = submit(&client, &addresses, &mut at, &key).await?;
        let answered = Instant::now();
        if books.since.lock().expect("no panic").is_some_and(|since| made >= since) {
            books.first.lock().expect("no panic").get_or_insert(answered);
        }
        books.acks.lock().expect("no panic").push((key, created));
        sleep(THINK).await;
    }
    Ok(())
}

/// One kill: how long it took until a write was acknowledged again.
async fn failover(group: &mut Group, books: &Books) -> Result<Duration, String> {
    let leader = group.leader().await?;
    *books.first.lock().expect("no panic") = None;
    let killed = group.kill(leader)?;
    *books.since.lock().expect("no panic") = Some(killed);
    let took = loop {
        if let Some(first) = *books.first.lock().expect("no panic") {
            break first - killed;
        }
        if killed.elapsed() > PATIENCE {
            return Err("no write was acknowledged after a kill".to_owned());
        }
        sleep(Duration::from_millis(1)).await;
    };
    *books.since.lock().expect("no panic") = None;
    group.up(leader)?;
    group.caught_up(leader).await?;
    Ok(took)
}

/// Asks for everything again; what is wrong.
async fn audit(group: &Group, acks: Vec<(IdempotencyKey, Epoch)>) -> Result<u64, String> {
    let mut wrong = 0;
    let mut at = 0;
    for chunk in acks.chunks(64) {
        let mut asked = tokio::task::JoinSet::new();
        for (key, created) in chunk.iter().cloned() {
            let (client, addresses) = (Arc::clone(&group.client), group.addresses.clone());
            at += 1;
            let mut at = at;
            asked.spawn(async move {
                let (now, duplicate, _) = submit(&client, &addresses, &mut at, &key).await?;
                Ok::<_, String>(u64::from(!duplicate || now != created))
            });
        }
        while let Some(asked) = asked.join_next().await {
            wrong += asked.map_err(|error| error.to_string())??;
        }
    }
    Ok(wrong)
}

fn load() -> String {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

async fn run(volley: PathBuf, kills: u64, root: PathBuf) -> Result<bool, String> {
    let mut group = Group::new(volley, root)?;
    for member in 0..MEMBERS {
        group.up(member)?;
    }
    group.leader().await?;
    let books = Arc::new(Books::default());
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (client, addresses) = (Arc::clone(&group.client), group.addresses.clone());
            tokio::spawn(write(writer, client, addresses, Arc::clone(&books)))
        })
        .collect();
    println!("load average before: {}", load());
    let mut times = Vec::new();
    for kill in 1..=kills {
        // Some writes in between, as in life.
        sleep(Duration::from_millis(300)).await;
        let took = failover(&mut group, &books).await?;
        eprintln!("kill {kill}: {:.0} ms", took.as_secs_f64() * 1000.0);
        times.push(took);
    }
    books.stop.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.map_err(|error| error.to_string())??;
    }
    println!("load average after: {}", load());

    let acks = std::mem::take(&mut *books.acks.lock().expect("no panic"));
    let count = acks.len();
    let wrong = audit(&group, acks).await?;
    println!("{count} acknowledged writes, {wrong} of them lost or done twice");

    times.sort_unstable();
    let election = NodeConfig::default().timing.election_max;
    let at = |share: f64| {
        let place = (times.len() as f64 * share).ceil() as usize;
        times[place.clamp(1, times.len()) - 1]
    };
    let of = |time: Duration| {
        let (ms, timeouts) = (time.as_millis(), time.as_secs_f64() / election.as_secs_f64());
        format!("{ms} ms = {timeouts:.2} election timeouts")
    };
    println!("{kills} kills of the leader, {} ms being an election timeout:", election.as_millis());
    println!("  p50 {}", of(at(0.5)));
    println!("  p99 {}", of(at(0.99)));
    println!("  max {}", of(at(1.0)));
    let over = at(0.99).as_secs_f64() / election.as_secs_f64() > AIM;
    println!("  aim: p99 of {AIM} or less: {}", if over { "OVER" } else { "met" });
    Ok(wrong == 0)
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(volley) = arguments.next().map(PathBuf::from) else {
        eprintln!("usage: failover VOLLEY [kills] [folder]");
        return ExitCode::from(2);
    };
    let kills = arguments.next().map_or(100, |text| text.parse().expect("a number of kills"));
    let root = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let root = root.join(format!("ledger-failover-{}", std::process::id()));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    match runtime.block_on(run(volley, kills, root)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("failover: {problem}");
            ExitCode::FAILURE
        }
    }
}
