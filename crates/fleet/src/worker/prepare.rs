//! From a dispatch to something that can be started: bundle, context, counters, thread.

use permit::{IssuedFile, SendPermit};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use control::message::{Dispatch, RowBlock, Task};
use control::owner::context::{self, Handed};
use control::worker::Run;
use engine::attempt::{
    Engine, HookSpec, Join, LoadOptions, Loaded, Provided, ShardSpec, Values, Wiring,
};
use fence::BootId;
use ledger_state::Payload;
use node::Host;
use stats::stream::{Sender, SenderLimits};
use stats::wire::{Schema, StreamKey};

use super::Inbox;
use super::attempt::{Body, hook_of};
use super::blobs::{Blobs, NotHere};
use super::files::Folders;
use super::job::{Job, NotLoaded, lock};

/// What attempts are made with.
pub(super) struct Preparer {
    pub host: Host,
    pub engine: Arc<dyn Engine>,
    pub boot: BootId,
    pub folders: Folders,
    pub blobs: Arc<Blobs>,
    pub options: LoadOptions,
}

pub(super) struct PreparedAttempt {
    pub body: Body,
    pub stream: StreamKey,
    pub issued: Arc<IssuedFile>,
}

/// Why there is nothing that could be started.
pub(super) enum PrepareError {
    /// The plan or script is to blame. Final (R5).
    Error(String),
    /// This machine is to blame; another one may run it.
    Machine(String),
}

fn not_here(why: NotHere) -> PrepareError {
    PrepareError::Machine(why.text())
}

/// Reads, loads and prepares. What only the disk of this machine can be blamed for is tried again
/// first.
pub(super) async fn make(
    preparer: Arc<Preparer>,
    job: Arc<Job>,
    permit: Arc<SendPermit>,
    dispatch: Box<Dispatch>,
    inbox: Inbox,
) -> Result<PreparedAttempt, PrepareError> {
    let handed = match &dispatch.context {
        Payload::Inline(bytes) => context::decode(bytes).map_err(PrepareError::Error)?,
        Payload::Blob(blob) => {
            let path = preparer.blobs.get(*blob).await.map_err(not_here)?;
            let read = preparer.host.blocking(move || std::fs::read(path)).await;
            let read = read.map_err(|error| PrepareError::Machine(error.to_string()))?;
            let read =
                read.map_err(|error| PrepareError::Machine(format!("the context: {error}")))?;
            context::decode(&read).map_err(PrepareError::Error)?
        }
    };
    let loaded = load(&preparer, &job).await?;
    let host = preparer.host;
    let made = host
        .blocking(move || prepare(&preparer, &job, permit, &dispatch, &handed, &loaded, &inbox));
    let crashed = |error| Err(PrepareError::Error(format!("preparing has crashed: {error}")));
    made.await.unwrap_or_else(crashed)
}

async fn load(preparer: &Arc<Preparer>, job: &Arc<Job>) -> Result<Arc<Loaded>, PrepareError> {
    for _ in 0..2 {
        let path: PathBuf = preparer.blobs.get(job.bundle).await.map_err(not_here)?;
        let (options, job) = (preparer.options.clone(), Arc::clone(job));
        let loaded = preparer.host.blocking(move || job.load(&path, &options)).await;
        let crashed = |error| PrepareError::Error(format!("loading has crashed: {error}"));
        match loaded.map_err(crashed)? {
            Ok(loaded) => return Ok(loaded),
            Err(NotLoaded::Error(error)) => return Err(PrepareError::Error(error)),
            Err(NotLoaded::Machine(error)) => return Err(PrepareError::Machine(error)),
            // It is gone now, so it is fetched again.
            Err(NotLoaded::Damaged) => {}
        }
    }
    let why = "the bundle on this worker's disk is damaged, twice in a row: look at the disk";
    Err(PrepareError::Machine(why.to_owned()))
}

fn prepare(
    preparer: &Preparer,
    job: &Job,
    permit: Arc<SendPermit>,
    dispatch: &Dispatch,
    handed: &Handed,
    loaded: &Arc<Loaded>,
    inbox: &Inbox,
) -> Result<PreparedAttempt, PrepareError> {
    let run = Run::new(dispatch.order.shard, dispatch.order.step.attempt);
    let workflows = loaded.definition().workflows.len();
    let hook = hook_of(dispatch.task);
    let number = match hook {
        Some((_, of)) => of.unwrap_or(workflows),
        None => run.shard.workflow.0 as usize,
    };
    if number > workflows || (hook.is_none() && number == workflows) {
        return Err(PrepareError::Error(format!("the plan has no workflow {number}")));
    }
    if let Some(error) = loaded.error_of(number) {
        return Err(PrepareError::Error(error.to_owned()));
    }
    let issued = preparer.folders.make_issued(run, preparer.boot, dispatch.units_before);
    let issued = issued.map_err(|error| {
        let folder = preparer.folders.issued.display();
        PrepareError::Machine(format!("no file for its counters in {folder}: {error}"))
    })?;
    let issued = Arc::new(issued);
    let values = values(loaded, number, handed);
    let body = if let Some((what, of)) = hook {
        let mut spec = HookSpec::new(of, what, values);
        spec.rows = rows(&dispatch.rows);
        Body::Waiting(Box::new(spec), Arc::clone(loaded))
    } else {
        let shards = dispatch.shards.max(1) as usize;
        let mut spec = ShardSpec::new(number, run.shard.shard as usize, shards);
        spec.values = values;
        spec.join = Join { elapsed: dispatch.elapsed, spent: dispatch.units_before };
        spec.units_end = dispatch.units_end;
        spec.rows = rows(&dispatch.rows);
        for unique in loaded.unique_sets(Some(number)) {
            // Without a block it asks for one; it must not follow its own numbers, which others
            // have too.
            spec.rows.entry(unique.set).or_default();
        }
        let reports = inbox.clone();
        let wiring = Wiring {
            permit,
            issued: Some(Arc::clone(&issued)),
            reports: Arc::new(move |report| reports.report(run, report)),
            sample_sink: None,
        };
        let shard = preparer.engine.prepare(loaded, spec, wiring);
        let why = |error| PrepareError::Machine(format!("its thread cannot be started: {error}"));
        let shard = shard.map_err(why)?;
        Body::Shard(shard, Arc::clone(loaded))
    };
    let stream = open_stream(job, run, dispatch.task, loaded).map_err(PrepareError::Machine)?;
    Ok(PreparedAttempt { body, stream, issued })
}

/// Values under the variables: what setups have left, and what earlier workflows hand over.
fn values(loaded: &Loaded, workflow: usize, handed: &Handed) -> Values {
    let mut provided = Provided::new();
    if let Some(known) = loaded.definition().workflows.get(workflow) {
        for used in &known.uses {
            let Some(value) = handed.uses.get(&used.key) else { continue };
            // The owner has chosen among the sources, so each of them has this one.
            for from in &used.from {
                provided.insert((from.clone(), used.key.clone()), value.clone());
            }
        }
    }
    loaded.values_for(workflow, &handed.variables, &provided)
}

fn rows(blocks: &[RowBlock]) -> BTreeMap<usize, Vec<Range<u64>>> {
    let mut rows: BTreeMap<usize, Vec<Range<u64>>> = BTreeMap::new();
    for block in blocks.iter().filter(|block| block.first < block.end) {
        rows.entry(block.set as usize).or_default().push(block.first..block.end);
    }
    rows
}

fn open_stream(job: &Job, run: Run, task: Task, loaded: &Loaded) -> Result<StreamKey, String> {
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(|error| format!("no random bytes: {error}"))?;
    let key = StreamKey {
        workflow: run.shard.workflow.0,
        shard: run.shard.shard,
        attempt: run.attempt.0,
        id: u128::from_le_bytes(id),
    };
    tracing::debug!(%run, ?task, "made");
    let schema = Schema::new(Arc::clone(loaded.layout()), loaded.series_layout().cloned());
    lock(&job.streams).insert(key, Sender::new(key, schema, SenderLimits::default()));
    job.nudge.notify_one();
    Ok(key)
}
