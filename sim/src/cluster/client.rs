//! Users: each submits a job, perhaps steers or cancels it, and waits for its result, through the
//! product's own client.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use base::lock;
use control::owner::Policy;
use fastrand::Rng;
use fence::{JobId, NodeId};
use fleet::client::pack::pack_plan;
use fleet::client::{FleetClient, FleetError, ManagerStep, Steering, Submission};
use ledger_state::IdempotencyKey;
use membership::Role;
use plan::ReadOptions;
use tokio::time::sleep;

use super::network::{SimNetwork, identity};
use super::plan::{Class, FOUNDERS, Job, Mark, ROWS};
use super::world::{Submitted, Wish, World};
use crate::event;

/// Where the trace shows clients.
const HOST: u64 = 99;
const DEADLINE: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(6);
/// A result is asked for again after this: later than blobs are collected that no job has, and
/// earlier than an ended job is forgotten.
const ASKED_AGAIN: Duration = Duration::from_secs(33);

pub fn client(world: &World, number: usize) -> FleetClient {
    let identity = identity(Role::Client, NodeId(0xc11e << 64 | number as u128));
    let conditions = Arc::clone(&world.conditions);
    let network = Arc::new(SimNetwork { host: HOST, identity, conditions });
    let managers = world.managers().iter().map(ToString::to_string).collect();
    FleetClient::on(network, managers, DEADLINE, PATIENCE).expect("there are managers")
}

/// A user with one job.
pub async fn user(world: Rc<World>, number: usize) {
    let job = world.plan.jobs[number].clone();
    let client = client(&world, number);
    sleep(job.at).await;
    let Some(id) = submit(&world, &client, &job).await else {
        event!("{} came too late", job.name);
        known(&world, &job.name, |known| known.refused = true);
        return;
    };
    known(&world, &job.name, |known| known.id = Some(id));
    event!("{} is accepted as {id}", job.name);
    let meddling = tokio::task::spawn_local(meddle(Rc::clone(&world), client.clone(), number, id));
    loop {
        match client.result(id).await {
            Ok(result) => {
                let status = client.status(id).await;
                if let Ok(status) = status {
                    known(&world, &job.name, |known| {
                        known.status = Some(status);
                        known.result = Some(Box::new(result));
                    });
                    event!("{} has its result", job.name);
                    lock(&world.target).end(&job.name);
                    break;
                }
            }
            Err(error) if is_forgotten(&world, &error) => {
                // It ended and was forgotten while nobody could be asked.
                known(&world, &job.name, |known| known.expired = true);
                break;
            }
            // It has not ended, or nobody answers: asked again.
            Err(_) => world.reach(Mark::LateAnswer),
        }
        sleep(Duration::from_secs(1)).await;
    }
    meddling.abort();
    if world.plan.has(Class::Retention) {
        expire(&world, &client, &job.name, id).await;
    }
}

/// A result can be had until its job is forgotten, also if nobody has asked for it for a while.
async fn expire(world: &World, client: &FleetClient, job: &str, id: JobId) {
    let everybody_is_there = world.calm.get();
    sleep(ASKED_AGAIN).await;
    loop {
        match client.result(id).await {
            Ok(_) => {}
            Err(error) if is_forgotten(world, &error) => {
                world.reach(Mark::Expired);
                return known(world, job, |known| known.expired = true);
            }
            Err(error) if everybody_is_there => {
                world.violate("R17a.result", format!("{job}: it had a result; {error}"));
            }
            Err(_) => {}
        }
        sleep(Duration::from_secs(2)).await;
    }
}

fn known(world: &World, job: &str, change: impl FnOnce(&mut Submitted)) {
    change(world.jobs.borrow_mut().entry(job.to_owned()).or_default());
}

/// Nobody knows the job any more, and nobody should.
fn is_forgotten(world: &World, error: &FleetError) -> bool {
    world.plan.has(Class::Retention) && error.is_unknown_job()
}

/// Whoever changes the managers: one more comes in, and the first goes, while another stands still
/// or is reached by its ledger only. Then an owner crashes.
pub async fn operator(world: Rc<World>) {
    let mut rng = Rng::with_seed(world.plan.seed ^ 0x6f70_6572);
    let client = client(&world, world.plan.jobs.len());
    let wish = |wish: Wish| world.wishes.borrow_mut().push(wish);
    sleep(Duration::from_millis(rng.u64(2_000..15_000))).await;
    let holds = rng.bool();
    if holds {
        wish(Wish::HoldServices(rng.usize(1..FOUNDERS)));
        sleep(Duration::from_secs(3)).await;
    }
    let address = world.managers()[FOUNDERS].to_string();
    let node = |host: usize| world.hosts[host].node.to_string();
    let steps = [
        ManagerStep::Admit { address },
        ManagerStep::Promote { node: node(FOUNDERS) },
        ManagerStep::Remove { node: node(0) },
    ];
    for step in steps {
        if matches!(step, ManagerStep::Remove { .. }) {
            world.hosts[0].retired.set(true);
            world.hosts[0].leave.notify_one();
        } else if !holds {
            wish(Wish::Pause(rng.usize(..FOUNDERS)));
        }
        while let Err(error) = client.change_managers(&step).await {
            event!("{step:?}: {error}");
            if world.calm.get() {
                return;
            }
            sleep(Duration::from_millis(300)).await;
        }
        world.injected(Class::Voters, &format!("{step:?}"));
    }
    world.reach(Mark::VotersChanged);
    if !world.calm.get() {
        wish(Wish::CrashOwner);
    }
}

fn pack(job: &Job) -> Vec<u8> {
    let folder = Path::new(&job.name);
    let made = std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(folder.join("plan.yaml"), &job.text))
        .and_then(|()| {
            let rows: String = (0..ROWS).map(|row| format!("user-{row}\n")).collect();
            std::fs::write(folder.join("users.csv"), format!("name\n{rows}"))
        });
    made.expect("files of a plan in memory");
    let options = ReadOptions::new(&|_| None);
    let packed = pack_plan(&folder.join("plan.yaml"), &options, Policy::default());
    let (_, bundle) = packed.unwrap_or_else(|error| panic!("{}: {error}", job.text));
    bundle.encode().unwrap_or_else(|error| panic!("{}: {error}", job.name))
}

/// The key of a submission. The client's own would hold the number of this process, which the seed
/// does not decide.
fn key(seed: u64, job: &str) -> String {
    let nonce = u128::from(seed).to_be_bytes();
    IdempotencyKey { client: job.to_owned(), sequence: 1, nonce }.to_string()
}

/// `None`: it was repeated for too long.
async fn submit(world: &World, client: &FleetClient, job: &Job) -> Option<JobId> {
    let bytes = bytes::Bytes::from(pack(job));
    let key = key(world.plan.seed, &job.name);
    let begun = tokio::time::Instant::now();
    loop {
        match client.put(bytes.clone(), Arc::new(|_, _| ())).await {
            Ok(bundle) => {
                let age = begun.elapsed();
                let submission =
                    Submission { key: key.clone(), name: job.name.clone(), bundle, age };
                match client.submit(&submission).await {
                    Ok(submitted) => return Some(submitted.job),
                    Err(FleetError::Rejected { kind, .. }) if kind == "too_late" => return None,
                    Err(error) => event!("{}: {error}", job.name),
                }
            }
            Err(error) => event!("{}: {error}", job.name),
        }
        world.reach(Mark::Resubmitted);
        sleep(Duration::from_millis(500)).await;
    }
}

/// What the user does while the job runs.
async fn meddle(world: Rc<World>, client: FleetClient, number: usize, id: JobId) {
    let mut rng = Rng::with_seed(world.plan.seed ^ (number as u64 + 1) << 40);
    let job = world.plan.jobs[number].name.clone();
    let classes = [Class::Cancel, Class::CancelNow, Class::Pause, Class::Scale, Class::Lease];
    for class in classes {
        if !world.plan.has(class) || rng.bool() && !world.plan.focused {
            continue;
        }
        sleep(Duration::from_millis(rng.u64(200..8_000))).await;
        if world.calm.get() {
            return;
        }
        world.injected(class, &job);
        match class {
            Class::Cancel | Class::CancelNow => {
                // Written before it is asked for: a lost answer may have been a yes.
                if let Ok(reply) = client.cancel(id, "enough", class == Class::CancelNow).await {
                    event!("{job}: {reply:?}");
                    known(&world, &job, |known| known.cancelled = true);
                }
            }
            Class::Pause => {
                let reply = client.steer(id, &Steering::Pause).await;
                let all_know = reply.as_ref().is_ok_and(|reply| reply.missed.is_empty());
                let paused = reply.is_ok();
                lock(&world.target).pause(&job, all_know);
                sleep(Duration::from_millis(rng.u64(200..6_000))).await;
                lock(&world.target).pause(&job, false);
                // A job that stays paused would never end.
                while client.steer(id, &Steering::Resume).await.is_err()
                    && client.result(id).await.is_err()
                {
                    sleep(Duration::from_millis(500)).await;
                }
                if paused {
                    world.reach(Mark::Paused);
                }
            }
            Class::Scale => {
                known(&world, &job, |known| known.scaled = true);
                let how = match rng.bool() {
                    true => Steering::Vus { workflow: None, vus: rng.u32(1..20) },
                    false => {
                        Steering::Rate { workflow: None, per_second: f64::from(rng.u32(1..40)) }
                    }
                };
                if client.steer(id, &how).await.is_ok() {
                    world.reach(Mark::Scaled);
                }
            }
            _ => {
                let most = if world.plan.focused { 3_000 } else { 6_000 };
                let lease_ms = Some(rng.u64(2_000..most));
                let limits = ManagerStep::Limits { lease_ms, keep_jobs_ms: None, retries: None };
                let _ = client.change_managers(&limits).await;
            }
        }
    }
}
