//! Arguments that only scripts know: k6's, under k6's names.

use std::path::PathBuf;
use std::time::Duration;

use super::k6_only::K6OnlyArgs;
use clap::Args;
use plan::units::Wrong;
use script::options::values as k6;
use script::options::{
    Dns, HostnamePattern, HttpDebug, IpRange, Options, Place, Segment, SegmentSequence,
    StageOptions,
};

#[derive(Args, Debug, Default, Clone)]
#[command(next_help_heading = "Scripts (as in k6)")]
pub struct ScriptArgs {
    /// Iterations, shared by the virtual users; for plans as well
    #[arg(short = 'i', long, value_name = "N")]
    pub iterations: Option<u64>,
    /// A stage, DURATION:VUS; may be repeated; for plans as well
    #[arg(short = 's', long = "stage", value_name = "TIME:VUS")]
    #[arg(value_parser = k6::stages)]
    pub stages: Vec<Vec<StageOptions>>,
    /// Options as JSON, below the script's own
    #[arg(short = 'c', long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Failed checks and requests fail the run, though no threshold speaks of them
    #[arg(long)]
    pub strict: bool,
    /// Do not run setup()
    #[arg(long)]
    pub no_setup: bool,
    /// Do not run teardown()
    #[arg(long)]
    pub no_teardown: bool,
    /// Ignore thresholds
    #[arg(long)]
    pub no_thresholds: bool,
    /// No summary at the end
    #[arg(long)]
    pub no_summary: bool,
    /// How much the summary says: compact (default), full, legacy or disabled
    #[arg(long, value_name = "MODE")]
    pub summary_mode: Option<String>,
    /// Write the summary as JSON, in k6's older shape
    #[arg(long, value_name = "FILE")]
    pub summary_export: Option<PathBuf>,
    /// Statistics of trends: avg,min,med,max,count,p(95)
    #[arg(long, value_delimiter = ',', value_name = "STATS")]
    #[arg(value_parser = k6::trend_stat)]
    pub summary_trend_stats: Vec<String>,
    /// Unit of times in the summary: s, ms or us
    #[arg(long, value_name = "UNIT", value_parser = k6::summary_time_unit)]
    pub summary_time_unit: Option<String>,
    /// Tag of every sample; may be repeated
    #[arg(long = "tag", value_name = "NAME=VALUE", value_parser = k6::tag)]
    pub tags: Vec<(String, String)>,
    /// System tags that are wanted
    #[arg(long, value_delimiter = ',', value_name = "TAGS")]
    pub system_tags: Vec<String>,
    /// At most so many requests a second
    #[arg(long, value_name = "N")]
    pub rps: Option<u32>,
    /// Redirects that are followed
    #[arg(long, value_name = "N")]
    pub max_redirects: Option<u32>,
    /// Requests of http.batch() at a time
    #[arg(long, value_name = "N")]
    pub batch: Option<u32>,
    /// The same for one host
    #[arg(long, value_name = "N")]
    pub batch_per_host: Option<u32>,
    /// Value of the User-Agent header
    #[arg(long, value_name = "TEXT")]
    pub user_agent: Option<String>,
    /// Show requests and answers: headers, or with bodies (full)
    #[arg(long, value_name = "HOW", num_args = 0..=1, default_missing_value = "headers", require_equals = true)]
    #[arg(value_parser = |text: &str| Ok::<_, Wrong>(k6::http_debug(text)))]
    pub http_debug: Option<HttpDebug>,
    /// Accept any TLS certificate
    #[arg(long)]
    pub insecure_skip_tls_verify: bool,
    /// A new connection for each request
    #[arg(long)]
    pub no_connection_reuse: bool,
    /// New connections for each iteration
    #[arg(long)]
    pub no_vu_connection_reuse: bool,
    /// Do not keep bodies unless a request asks for it
    #[arg(long)]
    pub discard_response_bodies: bool,
    /// Least time of an iteration
    #[arg(long, value_name = "TIME", value_parser = k6::duration)]
    pub min_iteration_duration: Option<Duration>,
    /// Failed requests throw
    #[arg(short = 'w', long)]
    pub throw: bool,
    /// Addresses that are never called; may be repeated
    #[arg(long, value_name = "CIDR", value_parser = IpRange::parse)]
    pub blacklist_ip: Vec<IpRange>,
    /// Host names that are never called
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    #[arg(value_parser = HostnamePattern::parse)]
    pub block_hostnames: Vec<HostnamePattern>,
    /// Source addresses, by address, range or network
    #[arg(long, value_name = "IPS")]
    pub local_ips: Option<String>,
    /// ttl=5m,select=random,policy=preferIPv4
    #[arg(long, value_name = "SETTINGS", value_parser = k6::dns)]
    pub dns: Option<Dns>,
    /// The part of the test that is run here: 0:1/3
    #[arg(long, value_name = "FROM:TO", value_parser = Segment::parse)]
    pub execution_segment: Option<Segment>,
    /// All parts: 0,1/3,2/3,1
    #[arg(long, value_name = "POINTS", value_parser = SegmentSequence::parse)]
    pub execution_segment_sequence: Option<SegmentSequence>,
    /// Begin paused; `volley ctl resume` lets it go on
    #[arg(short = 'p', long)]
    pub paused: bool,
    /// Whether the script sees this machine's environment; default: it does
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    pub include_system_env_vars: Option<bool>,
    /// What console.* prints goes to this file
    #[arg(long, value_name = "FILE")]
    pub console_output: Option<PathBuf>,
    /// Where the log goes: stderr (default), stdout, none or file=PATH
    #[arg(long, value_name = "WHERE")]
    pub log_output: Option<String>,
    /// Form of the log: text (default), json or raw
    #[arg(long, value_name = "FORM")]
    pub log_format: Option<String>,
    /// Show debug lines as well
    #[arg(short = 'v', long)]
    pub verbose: bool,
    /// Accepted for compatibility; scripts need no older JavaScript here
    #[arg(long, hide = true, value_name = "MODE")]
    pub compatibility_mode: Option<String>,
    #[command(flatten)]
    pub k6_only: K6OnlyArgs,
}

impl ScriptArgs {
    /// What is not an option of the test and not given comes from k6's variables. Clap is not asked
    /// to: a plan must not trip over them.
    pub fn with_environment(&self) -> ScriptArgs {
        let var = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let path = |given: &Option<PathBuf>, name| given.clone().or(var(name).map(PathBuf::from));
        let is_on = |name| var(name).is_some_and(|value| k6::boolean(&value).unwrap_or(true));
        ScriptArgs {
            config: path(&self.config, "K6_CONFIG"),
            no_summary: self.no_summary || is_on("K6_NO_SUMMARY"),
            summary_mode: self.summary_mode.clone().or(var("K6_SUMMARY_MODE")),
            summary_export: path(&self.summary_export, "K6_SUMMARY_EXPORT"),
            console_output: path(&self.console_output, "K6_CONSOLE_OUTPUT"),
            log_output: self.log_output.clone().or(var("K6_LOG_OUTPUT")),
            log_format: self.log_format.clone().or(var("K6_LOG_FORMAT")),
            ..self.clone()
        }
    }

    /// The flags as a level of options.
    pub fn options(&self, vus: Option<u32>, duration: Option<Duration>) -> Result<Options, Wrong> {
        let flag = |given: bool| given.then_some(true);
        let list = |values: &Vec<String>| (!values.is_empty()).then(|| values.clone());
        let local_ips = match &self.local_ips {
            Some(text) => Some((text.clone(), k6::local_addresses(text)?)),
            None => None,
        };
        let is_load = duration.is_some() || self.iterations.is_some() || !self.stages.is_empty();
        Ok(Options {
            load_place: is_load.then_some(Place::CommandLine),
            vus,
            duration,
            iterations: self.iterations,
            stages: (!self.stages.is_empty()).then(|| self.stages.concat()),
            no_setup: flag(self.no_setup),
            no_teardown: flag(self.no_teardown),
            summary_trend_stats: list(&self.summary_trend_stats),
            summary_time_unit: self.summary_time_unit.clone(),
            tags: (!self.tags.is_empty()).then(|| self.tags.iter().cloned().collect()),
            system_tags: list(&self.system_tags),
            rps: self.rps,
            max_redirects: self.max_redirects,
            batch: self.batch,
            batch_per_host: self.batch_per_host,
            user_agent: self.user_agent.clone(),
            http_debug: self.http_debug,
            insecure_skip_tls_verify: flag(self.insecure_skip_tls_verify),
            no_connection_reuse: flag(self.no_connection_reuse),
            no_vu_connection_reuse: flag(self.no_vu_connection_reuse),
            discard_response_bodies: flag(self.discard_response_bodies),
            min_iteration_duration: self.min_iteration_duration,
            throw: flag(self.throw),
            blacklist_ips: (!self.blacklist_ip.is_empty()).then(|| self.blacklist_ip.clone()),
            block_hostnames: (!self.block_hostnames.is_empty())
                .then(|| self.block_hostnames.clone()),
            local_ips,
            dns: self.dns.clone().unwrap_or_default(),
            execution_segment: self.execution_segment,
            execution_segment_sequence: self.execution_segment_sequence.clone(),
            paused: flag(self.paused),
            ..Options::default()
        })
    }

    /// The first argument that a plan has no use for.
    pub fn first_given(&self) -> Option<&'static str> {
        let given = [
            ("--config", self.config.is_some()),
            ("--strict", self.strict),
            ("--no-setup", self.no_setup),
            ("--no-teardown", self.no_teardown),
            ("--no-thresholds", self.no_thresholds),
            ("--summary-export", self.summary_export.is_some()),
            ("--tag", !self.tags.is_empty()),
            ("--rps", self.rps.is_some()),
            ("--max-redirects", self.max_redirects.is_some()),
            ("--user-agent", self.user_agent.is_some()),
            ("--insecure-skip-tls-verify", self.insecure_skip_tls_verify),
            ("--no-connection-reuse", self.no_connection_reuse),
            ("--execution-segment", self.execution_segment.is_some()),
            ("--execution-segment-sequence", self.execution_segment_sequence.is_some()),
            ("--paused", self.paused),
            ("--no-summary", self.no_summary),
            ("--summary-trend-stats", !self.summary_trend_stats.is_empty()),
            ("--summary-time-unit", self.summary_time_unit.is_some()),
            ("--system-tags", !self.system_tags.is_empty()),
            ("--batch", self.batch.is_some()),
            ("--batch-per-host", self.batch_per_host.is_some()),
            ("--http-debug", self.http_debug.is_some()),
            ("--no-vu-connection-reuse", self.no_vu_connection_reuse),
            ("--discard-response-bodies", self.discard_response_bodies),
            ("--min-iteration-duration", self.min_iteration_duration.is_some()),
            ("--throw", self.throw),
            ("--blacklist-ip", !self.blacklist_ip.is_empty()),
            ("--block-hostnames", !self.block_hostnames.is_empty()),
            ("--local-ips", self.local_ips.is_some()),
            ("--dns", self.dns.is_some()),
            ("--verbose", self.verbose),
            ("--summary-mode", self.summary_mode.is_some()),
            ("--include-system-env-vars", self.include_system_env_vars.is_some()),
            ("--console-output", self.console_output.is_some()),
            ("--log-output", self.log_output.is_some()),
            ("--log-format", self.log_format.is_some()),
        ];
        let first = given.iter().find(|(_, given)| *given).map(|(name, _)| *name);
        first.or_else(|| self.k6_only.first_given())
    }
}
