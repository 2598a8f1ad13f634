//! The shell of a worker: sockets, files, threads and clocks around `control::worker`.
//!
//! ```text
//! manager ── WorkerControl ──▶ service ──▶ actor (owns the machine) ──▶ prepare ──▶ engine::attempt, a thread each
//!    ▲                                      │  ▲  ▲                                      │ reports
//!    │                                      │  │  ╰──────────────────────────────────────╯
//!    ├── WorkerReports: Report, Renew ◀─────┤  ╰── files: outbox, issued counts
//!    ├── WorkerReports: GetBlob ──▶ blobs ◀─╯
//!    ╰── WorkerReports: PushFrames ◀── frames, one task per job ◀── streams of its attempts
//! ```
//!
//! **Invariant:** an attempt sends only through its permit, and only the machine's effects move it.
//! Whatever dies here, the permit's own look at the clock ends the sending (R4).
//!
//! **Invariant:** a report is on the disk before anybody else relies on it, and stays there until
//! it is forgotten.

mod actor;
mod attempt;
mod blobs;
mod files;
mod frames;
mod group;
mod job;
mod managers;
mod prepare;
mod service;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use control::worker::{BadSettings, Event, Figures, Limits, Run, Settings, Times};
use engine::attempt::{Engine, LoadOptions, Report, Threads};
use engine::secrets::{self, SecretLookup};
use fence::BootId;
use membership::heartbeat::{Beat, Stage, Work, WorkerBeat};
use node::config::CredentialFiles;
use node::network::{ChannelTiming, Channels};
use node::vitals::{self, Vitals};
use node::{Member, Platform};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use tonic::service::Routes;
use trust::Role;

use actor::{Actor, State};
use blobs::Blobs;
use files::Folders;
use group::Group;
use job::lock;
use managers::Managers;
use prepare::{PrepareError, PreparedAttempt, Preparer};
use service::{QUESTIONS_MAX, WorkerService};

/// What a worker is started with.
#[derive(Clone)]
pub struct WorkerConfig {
    /// Address, certificate, seeds, data folder, pace. `routes` and `report` are the worker's own.
    pub member: node::Config,
    /// How many shards it runs at once.
    pub cores: u32,
    /// Attempts on one core, when shards of a lost worker share it (R14).
    pub share_max: u32,
    /// `${secret.NAME}`; by default `VOLLEY_SECRET_NAME` of this process's environment.
    pub secrets: SecretLookup,
    /// Bundles that are kept for the next job. 2 GiB.
    pub blob_bytes: u64,
    pub times: Times,
    pub limits: Limits,
    /// When a manager that does not answer is the last to be asked, and for how long.
    pub breaker: control::breaker::Settings,
}

impl WorkerConfig {
    #[must_use]
    pub fn new(member: node::Config, cores: u32) -> Self {
        let plain = Settings::new(fence::NodeId(0), BootId(0), 0, cores);
        Self {
            member,
            cores,
            share_max: plain.share_max,
            secrets: secrets::from_environment(),
            blob_bytes: 2 << 30,
            times: plain.times,
            limits: plain.limits,
            breaker: control::breaker::Settings::default(),
        }
    }
}

/// Why a worker did not start.
#[derive(Debug)]
pub enum StartError {
    Member(node::StartError),
    Settings(BadSettings),
    /// The certificate is another role's.
    NotAWorker(Role),
    Files {
        path: PathBuf,
        error: io::Error,
    },
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Member(error) => error.fmt(f),
            Self::Settings(error) => error.fmt(f),
            Self::NotAWorker(role) => {
                write!(f, "the certificate is for a {role}; a worker needs one for a worker")
            }
            Self::Files { path, error } => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for StartError {}

/// Why a worker has to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It was told to drain, and nothing runs or is owed any more.
    Drained,
    Member(node::End),
    /// A mistake of ours.
    Broken(String),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Drained => f.write_str("drained: nothing runs here any more"),
            Self::Member(end) => end.fmt(f),
            Self::Broken(why) => write!(f, "the worker has broken down: {why}"),
        }
    }
}

impl std::error::Error for End {}

/// A running worker. Dropping it is a crash: its attempts stop sending, and nobody is told.
pub struct Worker {
    member: Arc<Member>,
    inbox: Inbox,
    figures: Arc<Mutex<Figures>>,
    end: watch::Receiver<Option<End>>,
    tasks: JoinSet<()>,
}

/// What comes to the actor from everywhere but the network. Not bounded by the channel: each word
/// answers something that the machine has asked for, and it asks for a bounded number of things at
/// a time.
enum ActorInput {
    Event(Event),
    PreparedAttempt(Run, Result<PreparedAttempt, PrepareError>),
    Report(Run, Report),
}

#[derive(Clone)]
struct Inbox(mpsc::UnboundedSender<ActorInput>);

impl Inbox {
    /// An actor that is gone needs no words.
    fn word(&self, word: ActorInput) {
        let _ = self.0.send(word);
    }

    fn event(&self, event: Event) {
        self.word(ActorInput::Event(event));
    }

    fn report(&self, run: Run, report: Report) {
        self.word(ActorInput::Report(run, report));
    }

    fn not_made(&self, run: Run, why: PrepareError) {
        self.word(ActorInput::PreparedAttempt(run, Err(why)));
    }
}

impl Worker {
    /// Takes the data folder, joins, and offers its cores.
    ///
    /// # Errors
    /// If the settings cannot work, or the member cannot start; see [`node::StartError`].
    pub async fn start(config: WorkerConfig) -> Result<Self, StartError> {
        // Before anybody hears of it: with another's certificate it would speak for that one.
        let role = role_of(&config.member.credentials);
        if let Some(role) = role.filter(|role| *role != Role::Worker) {
            return Err(StartError::NotAWorker(role));
        }
        check(&config)?;
        let platform = Platform::of_this_machine(&config.member).map_err(StartError::Member)?;
        Self::start_on(config, platform, Arc::new(Threads)).await
    }

    /// The same on a platform that is handed in, with whatever runs attempts there.
    ///
    /// # Errors
    /// As [`Worker::start`].
    pub async fn start_on(
        config: WorkerConfig,
        platform: Platform,
        engine: Arc<dyn Engine>,
    ) -> Result<Self, StartError> {
        let probe = check(&config)?;
        let identity = &platform.identity;
        if identity.role != Role::Worker {
            return Err(StartError::NotAWorker(identity.role));
        }
        let host = platform.host;
        let WorkerConfig { mut member, cores, secrets, blob_bytes, .. } = config;
        let breaker = config.breaker;
        let (questions_in, questions) = mpsc::channel(QUESTIONS_MAX);
        let (words_in, words) = mpsc::unbounded_channel();
        let inbox = Inbox(words_in);
        let figures = Figures { accepting: true, cores, cores_free: cores, ..Figures::default() };
        let figures = Arc::new(Mutex::new(figures));
        let group = Arc::new(OnceLock::new());
        let service = WorkerService::server(questions_in, Arc::clone(&group));
        member.colleagues = Some(colleagues(&group));
        member.routes = Some(match member.routes.take() {
            Some(routes) => routes.add_service(service),
            None => Routes::new(service),
        });
        member.report = Some(report(host.vitals(Role::Worker), Arc::clone(&figures)));
        let (pace, data) = (member.pace, member.data.clone());
        let member = Member::start_on(member, platform).await.map_err(StartError::Member)?;
        let member = Arc::new(member);

        // The folder is ours now.
        let opened = host.blocking(move || Folders::open(&data)).await;
        let opened = opened.map_err(|error| (PathBuf::new(), io::Error::other(error)));
        let (folders, leftovers) = opened
            .and_then(|opened| opened)
            .map_err(|(path, error)| StartError::Files { path, error })?;
        let life = member.life();
        let channels = Channels::new(member.network(), ChannelTiming::paced(pace));
        let managers = Arc::new(Managers::new(life.node, channels, breaker));
        let known = Arc::new(Group::new(Arc::downgrade(&member), Arc::clone(&managers)));
        let known = Arc::clone(group.get_or_init(|| known));
        let blobs = Blobs::new(host, folders.blobs.clone(), blob_bytes, Arc::clone(&managers));
        let blobs = Arc::new(blobs);
        let options = LoadOptions {
            scratch: folders.scratch.clone(),
            secrets,
            cores: cores as usize,
            ..LoadOptions::default()
        };
        let boot = life.boot;
        let preparer = Preparer { host, engine, boot, folders: folders.clone(), blobs, options };
        let (files_in, files_out) = mpsc::unbounded_channel();
        let (end_in, end) = watch::channel(None);
        let actor = Actor {
            settings: Settings { node: life.node, boot: life.boot, since: life.since, ..probe },
            machine: None,
            leftovers,
            member: Arc::downgrade(&member),
            views: member.watch(),
            questions,
            inbox: inbox.clone(),
            words,
            managers,
            group: Arc::clone(&known),
            preparer: Arc::new(preparer),
            files: files_in,
            figures: Arc::clone(&figures),
            end: end_in,
            state: State::default(),
        };
        // Dropping the set ends them.
        let mut tasks = JoinSet::new();
        tasks.spawn(files::keep(host, folders, files_out, inbox.clone()));
        tasks.spawn(actor.run());
        tasks.spawn(known.run());
        Ok(Self { member, inbox, figures, end, tasks })
    }

    #[must_use]
    pub fn member(&self) -> &Member {
        &self.member
    }

    /// What it says of itself in heartbeats.
    #[must_use]
    pub fn figures(&self) -> Figures {
        *lock(&self.figures)
    }

    /// Finishes what runs, takes no more; then [`Worker::ended`] says [`End::Drained`].
    pub fn drain(&self) {
        self.inbox.event(Event::Drain);
    }

    /// Waits until it has to end, and says why.
    pub async fn ended(&self) -> End {
        let mut end = self.end.clone();
        let told = async {
            match end.wait_for(Option::is_some).await {
                Ok(end) => end.clone().unwrap_or(End::Drained),
                // Only a panic ends the actor before us.
                Err(_) => End::Broken("its actor has crashed".to_owned()),
            }
        };
        tokio::select! {
            biased;
            end = told => end,
            end = self.member.ended() => End::Member(end),
        }
    }

    /// Stops what runs, tells the owners, and leaves. Half of the time is for what is owed to them;
    /// reports that nobody has acknowledged by then stay on the disk for the next start.
    pub async fn shutdown(self, deadline: Duration) {
        let until = Instant::now() + deadline;
        self.inbox.event(Event::Shutdown);
        let mut end = self.end.clone();
        let told = timeout_at(Instant::now() + deadline / 2, end.wait_for(Option::is_some));
        if told.await.is_err() {
            tracing::warn!("not everything could be told; the rest follows after the next start");
        }
        let Self { member, mut tasks, .. } = self;
        tasks.shutdown().await;
        let rest = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(100));
        // The tasks had the only other hands on it.
        if let Ok(member) = Arc::try_unwrap(member)
            && let Err(unfinished) = member.leave(rest).await
        {
            tracing::warn!(%unfinished, "cut off");
        }
    }
}

/// The settings, but for who it is.
fn check(config: &WorkerConfig) -> Result<Settings, StartError> {
    let plain = Settings::new(fence::NodeId(0), BootId(0), 0, config.cores);
    let WorkerConfig { share_max, times, limits, .. } = *config;
    let settings = Settings { share_max, times, limits, ..plain };
    settings.check().map_err(StartError::Settings)?;
    Ok(settings)
}

/// The role that the certificate says, if it can be read; if not, whoever needs it says why.
fn role_of(credentials: &CredentialFiles) -> Option<Role> {
    let facts = trust::show(&credentials.certificate).ok()?;
    facts.into_iter().next()?.identity.ok().map(|identity| identity.role)
}

/// Whose word about the gossip keys counts here.
fn colleagues(group: &Arc<OnceLock<Arc<Group>>>) -> node::config::Colleagues {
    let group = Arc::clone(group);
    Arc::new(move |manager| group.get().is_some_and(|group| group.admits(manager) == Some(true)))
}

/// What heartbeats say: the machine's load, and the worker's cores.
fn report(of_machine: vitals::Report, figures: Arc<Mutex<Figures>>) -> vitals::Report {
    Arc::new(move || {
        let figures = *lock(&figures);
        let machine = of_machine();
        let (cpu_percent, memory_percent) = match machine.beat {
            Beat::Worker(beat) => (beat.cpu_percent, beat.memory_percent),
            _ => (0, 0),
        };
        Vitals {
            stage: if figures.accepting || figures.disk_full {
                Stage::Active
            } else {
                Stage::Draining
            },
            work: Work { done: figures.work_done, runnable: figures.runnable },
            beat: Beat::Worker(WorkerBeat {
                accepting: figures.accepting,
                disk_full: figures.disk_full,
                cores_free: figures.cores_free,
                cores: figures.cores,
                queued: 0,
                cpu_percent,
                memory_percent,
                shards: figures.shards,
            }),
            ..machine
        }
    })
}
