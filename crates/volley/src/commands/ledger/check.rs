//! `volley debug ledger check`: writes through members of a ledger, measures, and audits.
//!
//! Every write is a rehearsal job under a key of its own. What is not known to be taken is sent
//! again under the same key, perhaps through another member. At the end each acknowledged one is
//! asked for again: it must be there, once, at the place in the log that was acknowledged.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fence::Epoch;
use ledger::TcpTransport;
use ledger::client::Client;
use ledger_state::{BlobRef, CreateJob, IdempotencyKey, Submission};
use report::ExitCode;
use report::format;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::draw;
use crate::cli::CheckArgs;
use crate::failure::{Failure, Threads, block_on, told};
use crate::print;

/// The longest that one member is asked before another one is.
const ONE_CALL: Duration = Duration::from_secs(2);
/// A pause between two acknowledgements that is worth reporting.
const GAP: Duration = Duration::from_millis(50);

struct Ack {
    key: IdempotencyKey,
    created: Epoch,
    sent: Instant,
    answered: Instant,
}

#[derive(Default)]
struct Work {
    acks: Vec<Ack>,
    retried: u64,
    /// What was refused for good, or never answered within the deadline.
    given_up: Vec<String>,
}

pub fn check(args: &CheckArgs) -> ExitCode {
    told(block_on(Threads::PerCore, run(args)))
}

async fn run(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let client = Arc::new(Client::new(Arc::new(TcpTransport)));
    reach_one(&client, &args.members).await?;

    let began = Instant::now();
    let progress = Arc::new(AtomicU64::new(0));
    let mut writers = JoinSet::new();
    for number in 0..args.clients {
        let writer = Writer {
            client: Arc::clone(&client),
            members: args.members.clone(),
            at: number as usize,
            deadline: args.deadline,
        };
        writers.spawn(write(writer, began + args.duration, Arc::clone(&progress)));
    }
    let ticker = (!args.json).then(|| tokio::spawn(say_progress(progress)));
    let work = writers.join_all().await;
    if let Some(ticker) = ticker {
        ticker.abort();
    }
    let wrote_for = began.elapsed();

    let mut audits = JoinSet::new();
    let mut all = Work::default();
    for (number, part) in work.into_iter().enumerate() {
        let writer = Writer {
            client: Arc::clone(&client),
            members: args.members.clone(),
            at: number,
            deadline: args.deadline,
        };
        let keys: Vec<_> = part.acks.iter().map(|ack| (ack.key.clone(), ack.created)).collect();
        audits.spawn(audit(writer, keys));
        all.acks.extend(part.acks);
        all.retried += part.retried;
        all.given_up.extend(part.given_up);
    }
    let wrong: Vec<String> = audits.join_all().await.into_iter().flatten().collect();
    let figures = Figures::new(&all.acks, wrote_for);
    if args.json {
        print::line(&figures.json(&all, &wrong).to_string());
    } else {
        print::out(&figures.text(&all, &wrong, args));
    }
    Ok(if wrong.is_empty() && all.given_up.is_empty() {
        ExitCode::Passed
    } else {
        ExitCode::Failed
    })
}

/// Fails unless one of the members answers.
async fn reach_one(client: &Client, members: &[SocketAddr]) -> Result<(), Failure> {
    let mut last = None;
    for member in members {
        match client.status(&member.to_string(), ONE_CALL).await {
            Ok(_) => return Ok(()),
            Err(error) => last = Some(error),
        }
    }
    let said = last.map(|error| error.to_string()).unwrap_or_default();
    Err(Failure::failed(format!("no member answers; the last one said: {said}")))
}

/// Nothing settled a write within the deadline.
struct NoAnswer {
    within: Duration,
    /// What was said last.
    said: String,
}

impl std::fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "no answer within {:?}: {}", self.within, self.said)
    }
}

/// Who writes, and through whom.
struct Writer {
    client: Arc<Client>,
    members: Vec<SocketAddr>,
    /// The member that is asked; the next one after a failure.
    at: usize,
    deadline: Duration,
}

impl Writer {
    /// Submits until there is an answer that settles it. Counts the tries after the first.
    async fn submit(&mut self, job: &mut CreateJob) -> (Result<Submission, NoAnswer>, u64) {
        let began = Instant::now();
        let mut tries = 0;
        loop {
            let member = self.members[self.at % self.members.len()].to_string();
            job.age_ms = began.elapsed().as_millis() as u64;
            let left = self.deadline.saturating_sub(began.elapsed());
            let answer = self.client.submit(&member, job, ONE_CALL.min(left)).await;
            let (said, wait) = match answer {
                Ok(Submission::Pending { .. }) => ("pending".to_owned(), Duration::ZERO),
                Ok(Submission::RetryLater { after_ms, why }) => {
                    (why.to_string(), Duration::from_millis(after_ms.min(100)))
                }
                Ok(settled) => return (Ok(settled), tries),
                Err(error) => (error.to_string(), Duration::from_millis(10)),
            };
            if began.elapsed() + wait >= self.deadline {
                return (Err(NoAnswer { within: self.deadline, said }), tries);
            }
            tries += 1;
            self.at += 1;
            sleep(wait).await;
        }
    }
}

fn rehearsal(key: &IdempotencyKey) -> CreateJob {
    CreateJob {
        tenant: "volley-check".to_owned(),
        key: key.clone(),
        fingerprint: [0; 32],
        name: "rehearsal".to_owned(),
        plan: BlobRef { hash: [0; 32], bytes: 0 },
        age_ms: 0,
        rehearsal: true,
    }
}

async fn write(mut writer: Writer, until: Instant, progress: Arc<AtomicU64>) -> Work {
    let mut nonce = [0; 16];
    nonce[..8].copy_from_slice(&draw().to_le_bytes());
    nonce[8..].copy_from_slice(&draw().to_le_bytes());
    let mut work = Work::default();
    for sequence in 0.. {
        if Instant::now() >= until {
            break;
        }
        let key = IdempotencyKey { client: "volley-check".to_owned(), sequence, nonce };
        let sent = Instant::now();
        let (answer, tries) = writer.submit(&mut rehearsal(&key)).await;
        work.retried += tries;
        match answer {
            Ok(Submission::Accepted { created, .. }) => {
                work.acks.push(Ack { key, created, sent, answered: Instant::now() });
                progress.fetch_add(1, Ordering::Relaxed);
            }
            Ok(other) => work.given_up.push(format!("{key}: {other:?}")),
            Err(problem) => work.given_up.push(format!("{key}: {problem}")),
        }
    }
    work
}

/// Asks for everything again. What is new now was lost; what is elsewhere now was done twice.
async fn audit(mut writer: Writer, keys: Vec<(IdempotencyKey, Epoch)>) -> Vec<String> {
    let mut wrong = Vec::new();
    let count = keys.len();
    for (done, (key, created)) in keys.into_iter().enumerate() {
        let left = count - done - 1;
        match writer.submit(&mut rehearsal(&key)).await.0 {
            Ok(Submission::Accepted { duplicate: true, created: now, .. }) if now == created => {}
            Ok(Submission::Accepted { duplicate: true, created: now, .. }) => {
                wrong.push(format!("{key}: acknowledged at {created}, now at {now}"));
            }
            Ok(other) => wrong.push(format!("{key}: acknowledged at {created}, now {other:?}")),
            // Nobody answers any more; the rest would wait as long, one after the other.
            Err(problem) => {
                wrong.push(format!("{key} and the {left} after it: not audited: {problem}"));
                break;
            }
        }
    }
    wrong
}

async fn say_progress(progress: Arc<AtomicU64>) {
    let mut last = 0;
    loop {
        sleep(Duration::from_secs(2)).await;
        let now = progress.load(Ordering::Relaxed);
        eprintln!("{now} acknowledged, {} a second", (now - last) / 2);
        last = now;
    }
}

struct Figures {
    per_second: f64,
    p50: Duration,
    p99: Duration,
    longest: Duration,
    /// Pauses between acknowledgements, of all writers together.
    gaps: Vec<Duration>,
}

impl Figures {
    fn new(acks: &[Ack], wrote_for: Duration) -> Self {
        let mut waits: Vec<Duration> = acks.iter().map(|ack| ack.answered - ack.sent).collect();
        waits.sort_unstable();
        let at = |share: f64| {
            let index = (waits.len() as f64 * share) as usize;
            waits.get(index.min(waits.len().saturating_sub(1))).copied().unwrap_or_default()
        };
        let mut times: Vec<Instant> = acks.iter().map(|ack| ack.answered).collect();
        times.sort_unstable();
        let gaps = times.windows(2).map(|pair| pair[1] - pair[0]).filter(|gap| *gap >= GAP);
        Self {
            per_second: acks.len() as f64 / wrote_for.as_secs_f64(),
            p50: at(0.5),
            p99: at(0.99),
            longest: waits.last().copied().unwrap_or_default(),
            gaps: gaps.collect(),
        }
    }

    fn json(&self, all: &Work, wrong: &[String]) -> serde_json::Value {
        let ms = |time: Duration| time.as_secs_f64() * 1000.0;
        json!({
            "acknowledged": all.acks.len(), "per_second": self.per_second, "retried": all.retried,
            "p50_ms": ms(self.p50), "p99_ms": ms(self.p99), "max_ms": ms(self.longest),
            "gaps_ms": self.gaps.iter().copied().map(ms).collect::<Vec<_>>(),
            "given_up": all.given_up, "wrong": wrong,
        })
    }

    fn text(&self, all: &Work, wrong: &[String], args: &CheckArgs) -> String {
        let ms = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1000.0);
        let mut text = format!(
            "{} acknowledged, {:.0} a second with {}; p50 {}, p99 {}, longest {}\n",
            all.acks.len(),
            self.per_second,
            format::plural(u64::from(args.clients), "writer"),
            ms(self.p50),
            ms(self.p99),
            ms(self.longest),
        );
        if all.retried > 0 {
            text.push_str(&format!("{} sent again under the same key\n", all.retried));
        }
        if let Some(longest) = self.gaps.iter().max() {
            text.push_str(&format!("longest time without an acknowledgement: {}\n", ms(*longest)));
        }
        for problem in all.given_up.iter().take(10) {
            text.push_str(&format!("given up: {problem}\n"));
        }
        for problem in wrong.iter().take(10) {
            text.push_str(&format!("WRONG: {problem}\n"));
        }
        text.push_str(&match wrong.len() {
            0 => format!("audit: all {} are there, once\n", all.acks.len()),
            wrong => format!("audit: {wrong} of {} are WRONG\n", all.acks.len()),
        });
        text
    }
}
