//! The environment's level of options: `K6_VUS`, `K6_STAGES` and their like.

use std::collections::BTreeMap;

use plan::units::Wrong;

use super::level::{Options, Threshold};
use super::network::{HostAddress, HostnamePattern, IpRange, TlsVersion, TlsVersions};
use super::problem::{Findings, OptionsError, Place};
use super::segment::{Segment, SegmentSequence};
use super::values::{self, shorten};

/// Every variable that says something to a run.
const KNOWN: [&str; 52] = [
    "K6_BATCH",
    "K6_BATCH_PER_HOST",
    "K6_BLACKLIST_IPS",
    "K6_BLOCK_HOSTNAMES",
    "K6_CONFIG",
    "K6_CONSOLE_OUTPUT",
    "K6_CSV_TIME_FORMAT",
    "K6_DISCARD_RESPONSE_BODIES",
    "K6_DNS",
    "K6_DURATION",
    "K6_EXECUTION_SEGMENT",
    "K6_EXECUTION_SEGMENT_SEQUENCE",
    "K6_HANDLE_SUMMARY_TIMEOUT",
    "K6_HOSTS",
    "K6_HTTP_DEBUG",
    "K6_INCLUDE_SYSTEM_ENV_VARS",
    "K6_INSECURE_SKIP_TLS_VERIFY",
    "K6_ITERATIONS",
    "K6_LINGER",
    "K6_LOCAL_IPS",
    "K6_LOG_FORMAT",
    "K6_LOG_OUTPUT",
    "K6_MAX_REDIRECTS",
    "K6_METRIC_SAMPLES_BUFFER_SIZE",
    "K6_MIN_ITERATION_DURATION",
    "K6_NO_CONNECTION_REUSE",
    "K6_NO_COOKIES_RESET",
    "K6_NO_SETUP",
    "K6_NO_SUMMARY",
    "K6_NO_TEARDOWN",
    "K6_NO_THRESHOLDS",
    "K6_NO_USAGE_REPORT",
    "K6_NO_VU_CONNECTION_REUSE",
    "K6_OUT",
    "K6_PAUSED",
    "K6_RPS",
    "K6_SETUP_TIMEOUT",
    "K6_STAGES",
    "K6_SUMMARY_EXPORT",
    "K6_SUMMARY_MODE",
    "K6_SUMMARY_TIME_UNIT",
    "K6_SUMMARY_TREND_STATS",
    "K6_SYSTEM_TAGS",
    "K6_TAGS",
    "K6_TEARDOWN_TIMEOUT",
    "K6_THRESHOLDS",
    "K6_THROW",
    "K6_TLS_VERSION",
    "K6_USER_AGENT",
    "K6_VUS",
    "K6_WEB_DASHBOARD",
    "K6_WEB_DASHBOARD_EXPORT",
];

/// Variables that are nearly one of k6's, each with the one that was probably meant. Others may be
/// the script's own.
pub fn misspelt(names: impl IntoIterator<Item = String>) -> Vec<(String, &'static str)> {
    let unknown = names.into_iter().filter(|name| name.starts_with("K6_"));
    let unknown = unknown.filter(|name| !KNOWN.contains(&name.as_str()));
    unknown
        .filter_map(|name| {
            // What all names begin with says nothing about their likeness.
            let short = |name: &'static str| name.strip_prefix("K6_").unwrap_or(name);
            let near = base::names::similar(&name[3..], KNOWN.map(short))?;
            let whole = KNOWN.into_iter().find(|known| short(known) == near)?;
            Some((name, whole))
        })
        .collect()
}

impl Options {
    /// Reads the `K6_*` variables that set options; all others are none of its business. An empty
    /// variable is as good as none, except `K6_STAGES`, where it means no stages.
    pub fn from_env(env: &BTreeMap<String, String>) -> Result<Options, OptionsError> {
        let mut reader = Reader { env, findings: Findings::at(Place::Environment) };
        let mut options = Options {
            paused: reader.get("K6_PAUSED", values::boolean),
            vus: reader.get("K6_VUS", values::count32),
            duration: reader.get("K6_DURATION", values::duration),
            iterations: reader.get("K6_ITERATIONS", values::count),
            execution_segment: reader.get("K6_EXECUTION_SEGMENT", Segment::parse),
            execution_segment_sequence: reader
                .get("K6_EXECUTION_SEGMENT_SEQUENCE", SegmentSequence::parse),
            no_setup: reader.get("K6_NO_SETUP", values::boolean),
            setup_timeout: reader.get("K6_SETUP_TIMEOUT", values::positive_duration),
            no_teardown: reader.get("K6_NO_TEARDOWN", values::boolean),
            teardown_timeout: reader.get("K6_TEARDOWN_TIMEOUT", values::positive_duration),
            handle_summary_timeout: reader
                .get("K6_HANDLE_SUMMARY_TIMEOUT", values::positive_duration),
            rps: reader.get("K6_RPS", values::count32),
            dns: reader.get("K6_DNS", values::dns).unwrap_or_default(),
            max_redirects: reader.get("K6_MAX_REDIRECTS", values::count32),
            user_agent: reader.get("K6_USER_AGENT", |text| Ok(text.to_string())),
            batch: reader.get("K6_BATCH", values::count32),
            batch_per_host: reader.get("K6_BATCH_PER_HOST", values::count32),
            http_debug: reader.get("K6_HTTP_DEBUG", |text| Ok(values::http_debug(text))),
            insecure_skip_tls_verify: reader.get("K6_INSECURE_SKIP_TLS_VERIFY", values::boolean),
            tls_version: reader.get("K6_TLS_VERSION", one_tls_version),
            throw: reader.get("K6_THROW", values::boolean),
            blacklist_ips: reader.list("K6_BLACKLIST_IPS", IpRange::parse),
            block_hostnames: reader.list("K6_BLOCK_HOSTNAMES", HostnamePattern::parse),
            hosts: reader.get("K6_HOSTS", hosts),
            no_connection_reuse: reader.get("K6_NO_CONNECTION_REUSE", values::boolean),
            no_vu_connection_reuse: reader.get("K6_NO_VU_CONNECTION_REUSE", values::boolean),
            min_iteration_duration: reader.get("K6_MIN_ITERATION_DURATION", values::duration),
            summary_trend_stats: reader.list("K6_SUMMARY_TREND_STATS", values::trend_stat),
            summary_time_unit: reader.get("K6_SUMMARY_TIME_UNIT", values::summary_time_unit),
            system_tags: reader.get("K6_SYSTEM_TAGS", |text| Ok(values::names(text))),
            tags: reader.get("K6_TAGS", tags),
            metric_samples_buffer_size: reader.get("K6_METRIC_SAMPLES_BUFFER_SIZE", values::count),
            no_cookies_reset: reader.get("K6_NO_COOKIES_RESET", values::boolean),
            discard_response_bodies: reader.get("K6_DISCARD_RESPONSE_BODIES", values::boolean),
            console_output: reader.get("K6_CONSOLE_OUTPUT", |text| Ok(text.to_string())),
            local_ips: reader
                .get("K6_LOCAL_IPS", |t| Ok((t.to_string(), values::local_addresses(t)?))),
            thresholds: reader.get("K6_THRESHOLDS", thresholds),
            ..Options::default()
        };
        if let Some(text) = env.get("K6_STAGES") {
            options.stages = reader.findings.check("K6_STAGES", values::stages(text));
        }
        options.load_place = options.has_load().then_some(Place::Environment);
        reader.findings.finish(options).map(|(options, _)| options)
    }
}

struct Reader<'a> {
    env: &'a BTreeMap<String, String>,
    findings: Findings,
}

impl Reader<'_> {
    fn get<T>(&mut self, name: &str, read: impl FnOnce(&str) -> Result<T, Wrong>) -> Option<T> {
        let text = self.env.get(name).filter(|text| !text.is_empty())?;
        self.findings.check(name, read(text))
    }

    fn list<T>(&mut self, name: &str, read: impl Fn(&str) -> Result<T, Wrong>) -> Option<Vec<T>> {
        self.get(name, |text| values::names(text).iter().map(|item| read(item)).collect())
    }
}

fn one_tls_version(text: &str) -> Result<TlsVersions, Wrong> {
    let version = Some(TlsVersion::parse(text)?);
    Ok(TlsVersions { min: version, max: version })
}

/// `name:value,name:value`; also with `=`, as `--tag` has it.
fn tags(text: &str) -> Result<BTreeMap<String, String>, Wrong> {
    let pair = |item: &str| {
        let wrong = || {
            let message = format!("`{}` is not a tag", shorten(item));
            Wrong::new(message, "write name:value,name:value")
        };
        let (name, value) = item.split_once([':', '=']).ok_or_else(wrong)?;
        Ok((name.to_string(), value.to_string()))
    };
    text.split(',').map(pair).collect()
}

/// A JSON object of hosts, as in a script.
fn hosts(text: &str) -> Result<Vec<(String, HostAddress)>, Wrong> {
    let help = "write {\"host\": \"1.2.3.4\"}";
    let map: BTreeMap<String, String> = serde_json::from_str(text)
        .map_err(|_| Wrong::new(format!("`{}` is not a map of hosts", shorten(text)), help))?;
    map.into_iter().map(|(host, address)| Ok((host, HostAddress::parse(&address)?))).collect()
}

/// A JSON object of thresholds, as in a script.
fn thresholds(text: &str) -> Result<Vec<(String, Vec<Threshold>)>, Wrong> {
    let help = "write {\"metric\": [\"expression\"]}";
    let wrong = |reason: String| {
        let message = format!("`{}` is not a map of thresholds: {reason}", shorten(text));
        Wrong::new(message, help)
    };
    let value: serde_json::Value =
        serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
    let mut findings = Findings::at(Place::Environment);
    let read = super::from_json::thresholds(&value, "", &mut findings);
    match (read, findings.problems.into_iter().next()) {
        (Some(thresholds), None) => Ok(thresholds),
        (_, Some(problem)) => Err(wrong(format!("{}: {}", problem.path, problem.message))),
        (None, None) => Err(wrong("nothing was read".to_string())),
    }
}
