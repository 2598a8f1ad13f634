//! A script, made ready once and shared by all its virtual users: code as bytecode, files, shared
//! arrays, rules from its options.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use stats::series::SeriesLayout;

use crate::heap::Budget;
use crate::modules::data::SharedData;
use crate::options::{HostnamePattern, IpRange};
use crate::recorder::SeenTags;
use crate::said::SaidSet;
use crate::source::Sources;
use crate::tags::{SystemTags, TagSet};
use crate::thrown::Thrown;

/// What options and machine decide for all virtual users.
#[derive(Debug, Clone)]
pub struct Rules {
    pub system_tags: SystemTags,
    /// Tags of the whole run.
    pub tags: TagSet,
    pub user_agent: String,
    pub max_redirects: u32,
    /// Somebody chose that number, and knows what comes at the end of it.
    pub max_redirects_chosen: bool,
    pub batch: usize,
    pub batch_per_host: usize,
    pub discard_response_bodies: bool,
    /// A failed request throws instead of returning a response with an error.
    pub throw: bool,
    pub no_cookies_reset: bool,
    pub no_vu_connection_reuse: bool,
    pub min_iteration_duration: std::time::Duration,
    /// `None`, or whether bodies are shown as well.
    pub http_debug: Option<bool>,
    pub block_hostnames: Vec<HostnamePattern>,
    pub blacklist_ips: Vec<IpRange>,
    /// The consolidated options, as scripts see them.
    pub options_json: String,
}

pub struct Script {
    pub sources: Sources,
    pub env: BTreeMap<String, String>,
    pub budget: Arc<Budget>,
    /// By module name. Virtual users run code straight from here, so it is never dropped before
    /// them.
    bytecode: Mutex<BTreeMap<String, Arc<[u8]>>>,
    shared: Mutex<BTreeMap<String, Arc<SharedData>>>,
    /// While the script is inspected, metrics are declared here.
    declared: Mutex<SeriesLayout>,
    /// It was said that an iteration computes without end; once is enough.
    computed_too_long: AtomicBool,
    pub(crate) said: SaidSet,
    pub seen: Arc<SeenTags>,
    /// Iterations that ended with an exception, and what the first of them threw.
    exceptions: AtomicU64,
    first_exception: OnceLock<String>,
    rules: OnceLock<Rules>,
    layout: OnceLock<Arc<SeriesLayout>>,
}

impl Script {
    pub fn new(sources: Sources, env: BTreeMap<String, String>, budget: Arc<Budget>) -> Script {
        Script {
            sources,
            env,
            budget,
            bytecode: Mutex::default(),
            shared: Mutex::default(),
            declared: Mutex::new(SeriesLayout::new()),
            computed_too_long: AtomicBool::new(false),
            said: SaidSet::default(),
            seen: Arc::default(),
            exceptions: AtomicU64::new(0),
            first_exception: OnceLock::new(),
            rules: OnceLock::new(),
            layout: OnceLock::new(),
        }
    }

    /// An iteration ended with an exception.
    pub fn count_exception(&self, thrown: &Thrown) {
        self.exceptions.fetch_add(1, Ordering::Relaxed);
        self.first_exception.get_or_init(|| thrown.in_one_line());
    }

    /// How many iterations threw on this machine, and what the first of them did.
    pub fn exceptions(&self) -> Option<(u64, &str)> {
        let first = self.first_exception.get()?;
        Some((self.exceptions.load(Ordering::Relaxed), first))
    }

    /// What the script reads from `__ENV` without a default, and nobody has set.
    pub fn unset_environment(&self) -> Vec<String> {
        let mut names = self.sources.environment_names();
        names.retain(|name| !self.env.contains_key(name));
        names.truncate(3);
        names
    }

    pub(crate) fn first_to_compute_too_long(&self) -> bool {
        !self.computed_too_long.swap(true, Ordering::Relaxed)
    }

    /// Until the options are known, those of k6 hold.
    pub fn rules(&self) -> &Rules {
        self.rules.get().unwrap_or_else(|| default_rules())
    }

    /// To be called once, before the first virtual user is made.
    pub fn settle(&self, rules: Rules, layout: Arc<SeriesLayout>) {
        let _ = self.rules.set(rules);
        let _ = self.layout.set(layout);
    }

    /// Metrics of the run; `None` while the script is inspected.
    pub fn layout(&self) -> Option<&Arc<SeriesLayout>> {
        self.layout.get()
    }

    pub fn with_declared<T>(&self, change: impl FnOnce(&mut SeriesLayout) -> T) -> T {
        change(&mut self.declared.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn bytecode(&self, name: &str) -> Option<Arc<[u8]>> {
        self.bytecode.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// The first to compile a module wins; all run the same bytes.
    pub fn keep_bytecode(&self, name: &str, bytes: Vec<u8>) -> Arc<[u8]> {
        let mut known = self.bytecode.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry(name.to_owned()).or_insert_with(|| bytes.into()).clone()
    }

    pub fn shared(&self, name: &str) -> Option<Arc<SharedData>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    pub fn keep_shared(&self, name: &str, data: SharedData) -> Arc<SharedData> {
        let mut known = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry(name.to_owned()).or_insert_with(|| Arc::new(data)).clone()
    }
}

fn default_rules() -> &'static Rules {
    static RULES: OnceLock<Rules> = OnceLock::new();
    RULES.get_or_init(|| Rules {
        system_tags: SystemTags::DEFAULT,
        tags: TagSet::default(),
        user_agent: USER_AGENT.to_owned(),
        max_redirects: 10,
        max_redirects_chosen: false,
        batch: 20,
        batch_per_host: 6,
        discard_response_bodies: false,
        throw: false,
        no_cookies_reset: false,
        no_vu_connection_reuse: false,
        min_iteration_duration: std::time::Duration::ZERO,
        http_debug: None,
        block_hostnames: Vec::new(),
        blacklist_ips: Vec::new(),
        options_json: "{}".to_owned(),
    })
}

pub const USER_AGENT: &str = concat!("volley/", env!("CARGO_PKG_VERSION"));
