//! A script's exported `options`, or a config file, as one level of options.

use std::collections::BTreeSet;

use plan::units::Wrong;
use serde_json::Value;

use super::level::{Options, Threshold, Thresholds};
use super::network::{
    Dns, DnsPolicy, DnsSelect, HostAddress, HostnamePattern, IpRange, TlsAuth, TlsVersion,
    TlsVersions, cipher_suite,
};
use super::problem::{Findings, OptionsError, Place, Warning, plain, suggestion};
use super::reader::{self, Object};
use super::scenario;
use super::segment::{Segment, SegmentSequence};
use super::values;

/// Every key of the options object.
const KEYS: [&str; 43] = [
    "paused",
    "vus",
    "duration",
    "iterations",
    "stages",
    "scenarios",
    "executionSegment",
    "executionSegmentSequence",
    "noSetup",
    "setupTimeout",
    "noTeardown",
    "teardownTimeout",
    "handleSummaryTimeout",
    "rps",
    "dns",
    "maxRedirects",
    "userAgent",
    "batch",
    "batchPerHost",
    "httpDebug",
    "insecureSkipTLSVerify",
    "tlsCipherSuites",
    "tlsVersion",
    "tlsAuth",
    "throw",
    "thresholds",
    "blacklistIPs",
    "blockHostnames",
    "hosts",
    "noConnectionReuse",
    "noVUConnectionReuse",
    "minIterationDuration",
    "cloud",
    "ext",
    "summaryTrendStats",
    "summaryTimeUnit",
    "systemTags",
    "tags",
    "metricSamplesBufferSize",
    "noCookiesReset",
    "discardResponseBodies",
    // k6 takes these two from flags and the environment only; in a script they do no harm.
    "consoleOutput",
    "localIPs",
];

/// Of the run and not of the options: a config file may hold them, and the command line reads them
/// there.
const CONFIG_FILE_KEYS: [&str; 6] =
    ["out", "collectors", "linger", "noUsageReport", "webDashboard", "profilingEnabled"];

/// Tags that samples can carry; `systemTags` says which of them do.
pub(super) const SYSTEM_TAGS: [&str; 18] = [
    "proto",
    "subproto",
    "status",
    "method",
    "url",
    "name",
    "group",
    "check",
    "error",
    "error_code",
    "tls_version",
    "scenario",
    "service",
    "expected_response",
    "vu",
    "iter",
    "ip",
    "ocsp_status",
];

impl Options {
    /// Reads a level of options. A key that is not known at the top is a warning, as in k6: scripts
    /// are shared between versions. Within a scenario it is an error.
    pub fn from_json(value: &Value, place: Place) -> Result<(Options, Vec<Warning>), OptionsError> {
        let mut findings = Findings::at(place);
        if value.is_null() {
            return findings.finish(Options::default());
        }
        let Some(object) = Object::read(value, "", &mut findings) else {
            return findings.finish(Options::default());
        };
        let mut known = KEYS.to_vec();
        if matches!(findings.place, Place::ConfigFile(_)) {
            known.extend(CONFIG_FILE_KEYS);
        }
        for (path, wrong) in object.unknown(&known) {
            let message = "there is no such option, it is ignored".to_string();
            let help = match scenario::is_key(&path) {
                true => Some(format!(
                    "it belongs into a scenario: scenarios: {{ main: {{ executor: '...', {path}: ... }} }}"
                )),
                false => wrong.help,
            };
            findings.warn(path, Wrong { message, help });
        }
        let mut options = plain_options(&object, &mut findings);
        nested_options(&mut options, &object, &mut findings);
        options.load_place = options.has_load().then(|| findings.place.clone());
        findings.finish(options)
    }
}

/// The options that are one value each.
fn plain_options(object: &Object<'_>, findings: &mut Findings) -> Options {
    let positive = |value: &Value| values::positive(reader::duration(value)?);
    let segment = |value: &Value| Segment::parse(&reader::text(value)?);
    let sequence = |value: &Value| SegmentSequence::parse(&reader::text(value)?);
    let debug = |value: &Value| Ok(values::http_debug(&reader::text(value)?));
    let unit = |value: &Value| values::summary_time_unit(&reader::text(value)?);
    let addresses = |value: &Value| {
        let text = reader::text(value)?;
        let addresses = values::local_addresses(&text)?;
        Ok((text, addresses))
    };
    Options {
        paused: object.field("paused", findings, reader::boolean),
        vus: object.field_unless_empty("vus", findings, reader::count32),
        duration: object.field("duration", findings, reader::duration),
        iterations: object.field_unless_empty("iterations", findings, reader::count),
        execution_segment: object.field_unless_empty("executionSegment", findings, segment),
        execution_segment_sequence: object.field_unless_empty(
            "executionSegmentSequence",
            findings,
            sequence,
        ),
        no_setup: object.field("noSetup", findings, reader::boolean),
        setup_timeout: object.field("setupTimeout", findings, positive),
        no_teardown: object.field("noTeardown", findings, reader::boolean),
        teardown_timeout: object.field("teardownTimeout", findings, positive),
        handle_summary_timeout: object.field("handleSummaryTimeout", findings, positive),
        rps: limit(object, "rps", findings),
        max_redirects: limit(object, "maxRedirects", findings),
        user_agent: object.field("userAgent", findings, reader::text),
        batch: limit(object, "batch", findings),
        batch_per_host: limit(object, "batchPerHost", findings),
        http_debug: object.field("httpDebug", findings, debug),
        insecure_skip_tls_verify: object.field("insecureSkipTLSVerify", findings, reader::boolean),
        throw: object.field("throw", findings, reader::boolean),
        no_connection_reuse: object.field("noConnectionReuse", findings, reader::boolean),
        no_vu_connection_reuse: object.field("noVUConnectionReuse", findings, reader::boolean),
        min_iteration_duration: object.field("minIterationDuration", findings, reader::duration),
        cloud: object.get("cloud").cloned(),
        ext: object.get("ext").cloned(),
        summary_time_unit: object.field_unless_empty("summaryTimeUnit", findings, unit),
        metric_samples_buffer_size: object.field_unless_empty(
            "metricSamplesBufferSize",
            findings,
            reader::count,
        ),
        no_cookies_reset: object.field("noCookiesReset", findings, reader::boolean),
        discard_response_bodies: object.field("discardResponseBodies", findings, reader::boolean),
        console_output: object.field("consoleOutput", findings, reader::text),
        local_ips: object.field("localIPs", findings, addresses),
        ..Options::default()
    }
}

/// A number that k6 also takes when it is negative, and then treats as none.
fn limit(object: &Object<'_>, key: &str, findings: &mut Findings) -> Option<u32> {
    let number = object.field_unless_empty(key, findings, reader::integer)?;
    if number < 0 {
        let message = format!("{number} is negative and taken as 0");
        findings.warn(object.path_of(key), plain(message));
        return Some(0);
    }
    findings.check(object.path_of(key), values::not_negative(number).and_then(values::fits_u32))
}

/// The options that are lists and objects.
fn nested_options(options: &mut Options, object: &Object<'_>, findings: &mut Findings) {
    let nested = |key: &str| object.get(key).map(|value| (value, object.path_of(key)));
    if let Some((value, path)) = nested("stages") {
        options.stages = scenario::stages(value, &path, findings, false);
    }
    if let Some((value, path)) = nested("scenarios") {
        options.scenarios = scenario::scenarios(value, &path, findings);
    }
    if let Some((value, path)) = nested("thresholds") {
        options.thresholds = thresholds(value, &path, findings);
    }
    if let Some((value, path)) = nested("tags") {
        options.tags = reader::text_map(value, &path, findings);
    }
    if let Some((value, path)) = nested("systemTags") {
        options.system_tags = reader::list_of(value, &path, findings, |t| Ok(t.to_string()));
        warn_of_unknown_tags(options, &path, findings);
    }
    if let Some((value, path)) = nested("summaryTrendStats") {
        options.summary_trend_stats = reader::list_of(value, &path, findings, values::trend_stat);
    }
    if let Some((value, path)) = nested("blacklistIPs") {
        options.blacklist_ips = reader::list_of(value, &path, findings, IpRange::parse);
    }
    if let Some((value, path)) = nested("blockHostnames") {
        options.block_hostnames = reader::list_of(value, &path, findings, HostnamePattern::parse);
    }
    if let Some((value, path)) = nested("tlsCipherSuites") {
        options.tls_cipher_suites = reader::list_of(value, &path, findings, cipher_suite);
    }
    if let Some((value, path)) = nested("tlsVersion") {
        options.tls_version = tls_versions(value, &path, findings);
    }
    if let Some((value, path)) = nested("tlsAuth") {
        options.tls_auth = tls_auth(value, &path, findings);
    }
    if let Some((value, path)) = nested("hosts") {
        options.hosts = hosts(value, &path, findings);
    }
    if let Some((value, path)) = nested("dns") {
        options.dns = dns(value, &path, findings).unwrap_or_default();
    }
}

fn warn_of_unknown_tags(options: &Options, path: &str, findings: &mut Findings) {
    for tag in options.system_tags.iter().flatten() {
        if !SYSTEM_TAGS.contains(&tag.as_str()) {
            let message = format!("there is no system tag `{}`", values::shorten(tag));
            findings.warn(path, Wrong::new(message, suggestion(tag, &SYSTEM_TAGS)));
        }
    }
}

pub(super) fn thresholds(value: &Value, path: &str, findings: &mut Findings) -> Option<Thresholds> {
    let object = Object::read(value, path, findings)?;
    let mut thresholds = Vec::new();
    for (metric, value) in object.entries() {
        let path = object.path_of(metric);
        let items = match value {
            // An empty entry only makes the metric appear in the summary.
            Value::Null => Vec::new(),
            Value::Array(_) => reader::list(value, &path, findings).unwrap_or_default(),
            _ => {
                let message = format!("{} where a list is expected", reader::kind(value));
                let help = match value {
                    Value::String(text) => format!("write ['{}']", values::shorten(text)),
                    Value::Object(_) => format!("put it in a list: [{}]", as_written(value)),
                    _ => "write ['p(95)<200']".to_owned(),
                };
                findings.wrong(&path, Wrong::new(message, help));
                continue;
            }
        };
        let read = |(path, item): (String, &Value)| threshold(item, &path, findings);
        thresholds.push((metric.clone(), items.into_iter().filter_map(read).collect()));
    }
    Some(thresholds)
}

/// An object as a script writes it.
fn as_written(value: &Value) -> String {
    let text = |value: &Value| match value {
        Value::String(text) => format!("'{}'", values::shorten(text)),
        other => values::shorten(&other.to_string()),
    };
    let entries = value.as_object().into_iter().flatten().take(4);
    let entries: Vec<String> =
        entries.map(|(key, value)| format!("{}: {}", values::shorten(key), text(value))).collect();
    format!("{{ {} }}", entries.join(", "))
}

fn threshold(value: &Value, path: &str, findings: &mut Findings) -> Option<Threshold> {
    let help = "write 'p(95)<200', or { threshold: 'p(95)<200', abortOnFail: true }";
    let (threshold, abort_on_fail, delay_abort_eval) = match value {
        Value::String(text) => (text.clone(), false, None),
        Value::Object(_) => {
            let object = Object::read(value, path, findings)?;
            for (path, wrong) in object.unknown(&["threshold", "abortOnFail", "delayAbortEval"]) {
                findings.warn(path, wrong);
            }
            let before = findings.problems.len();
            let text = object.field("threshold", findings, reader::text);
            let abort = object.field("abortOnFail", findings, reader::boolean);
            let delay = object.field("delayAbortEval", findings, reader::duration);
            if findings.problems.len() > before {
                return None;
            }
            (text.unwrap_or_default(), abort.unwrap_or(false), delay)
        }
        _ => {
            let message = format!("{} is not a threshold", reader::kind(value));
            findings.wrong(path, Wrong::new(message, help));
            return None;
        }
    };
    if threshold.trim().is_empty() {
        findings.wrong(path, Wrong::new("the threshold has no expression", help));
        return None;
    }
    Some(Threshold { threshold, abort_on_fail, delay_abort_eval })
}

fn tls_versions(value: &Value, path: &str, findings: &mut Findings) -> Option<TlsVersions> {
    // An empty text is k6's spelling of no limit; it also prints one.
    let version = |value: &Value| match reader::text(value)?.as_str() {
        "" => Ok(None),
        text => TlsVersion::parse(text).map(Some),
    };
    if value.is_string() {
        let both = findings.check(path, version(value))?;
        return Some(TlsVersions { min: both, max: both });
    }
    let object = Object::read(value, path, findings)?;
    for (path, wrong) in object.unknown(&["min", "max"]) {
        findings.wrong(path, wrong);
    }
    let min = object.field("min", findings, version).flatten();
    let max = object.field("max", findings, version).flatten();
    if let (Some(min), Some(max)) = (min, max)
        && min > max
    {
        let message = format!("{} is newer than {}", min.name(), max.name());
        findings.wrong(path, Wrong::new(message, "swap min and max"));
    }
    Some(TlsVersions { min, max })
}

fn tls_auth(value: &Value, path: &str, findings: &mut Findings) -> Option<Vec<TlsAuth>> {
    let mut all = Vec::new();
    for (path, item) in reader::list(value, path, findings)? {
        let Some(object) = Object::read(item, &path, findings) else { continue };
        for (path, wrong) in object.unknown(&["domains", "cert", "key", "password"]) {
            findings.wrong(path, wrong);
        }
        let domains = object.get("domains").and_then(|value| {
            reader::list_of(value, &object.path_of("domains"), findings, |t| Ok(t.to_string()))
        });
        let pem = |value: &Value| {
            let text = reader::text(value)?;
            let wrong = || Wrong::new("this is not PEM", "read the file with open('cert.pem')");
            text.contains("-----BEGIN ").then_some(text).ok_or_else(wrong)
        };
        for key in ["cert", "key"] {
            if object.get(key).is_none() {
                let wrong = Wrong::new("it is missing", "read the file with open('cert.pem')");
                findings.wrong(object.path_of(key), wrong);
            }
        }
        all.push(TlsAuth {
            domains: domains.unwrap_or_default(),
            cert: object.field("cert", findings, pem).unwrap_or_default(),
            key: object.field("key", findings, pem).unwrap_or_default(),
            password: object.field("password", findings, reader::text),
        });
    }
    Some(all)
}

fn hosts(value: &Value, path: &str, findings: &mut Findings) -> Option<Vec<(String, HostAddress)>> {
    let object = Object::read(value, path, findings)?;
    let mut hosts = Vec::new();
    let mut seen = BTreeSet::new();
    for (host, value) in object.entries() {
        let path = object.path_of(host);
        findings.check(&path, HostnamePattern::parse(host));
        let address = reader::text(value).and_then(|text| HostAddress::parse(&text));
        if let Some(address) = findings.check(&path, address)
            && seen.insert(host.to_ascii_lowercase())
        {
            hosts.push((host.clone(), address));
        }
    }
    Some(hosts)
}

fn dns(value: &Value, path: &str, findings: &mut Findings) -> Option<Dns> {
    let object = Object::read(value, path, findings)?;
    for (path, wrong) in object.unknown(&["ttl", "select", "policy"]) {
        findings.warn(path, wrong);
    }
    Some(Dns {
        ttl: object.field("ttl", findings, |value| values::dns_ttl(&reader::text(value)?)),
        select: object.field("select", findings, |v| DnsSelect::parse(&reader::text(v)?)),
        policy: object.field("policy", findings, |v| DnsPolicy::parse(&reader::text(v)?)),
    })
}
