//! Options as scripts see them in `exec.test.options`: every key, with `null` where nothing is set.
//!
//! The names and their order are k6's; maps are in the order of their keys, as there.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::level::{HttpDebug, Options, StageOptions, Threshold};
use super::network::{TlsAuth, TlsVersion};
use super::scenario::{ExecutorKind, ScenarioOptions};
use super::values::duration_text;

impl Options {
    /// The consolidated options. The shortcuts (`vus`, `duration`, `iterations`, `stages`) appear
    /// only where they are set; after resolving, none is.
    pub fn to_json(&self) -> Value {
        let mut out = Map::new();
        let mut put = |key: &str, value: Value| out.insert(key.to_string(), value);
        put("paused", json!(self.paused));
        for (key, value) in [
            ("vus", json!(self.vus)),
            ("duration", time(self.duration)),
            ("iterations", json!(self.iterations)),
            ("stages", stages(self.stages.as_deref())),
        ] {
            if !value.is_null() {
                put(key, value);
            }
        }
        put("scenarios", scenarios(self.scenarios.as_deref()));
        put("executionSegment", text(self.execution_segment.as_ref()));
        put("executionSegmentSequence", text(self.execution_segment_sequence.as_ref()));
        put("noSetup", json!(self.no_setup));
        put("setupTimeout", time(self.setup_timeout));
        put("noTeardown", json!(self.no_teardown));
        put("teardownTimeout", time(self.teardown_timeout));
        put("rps", json!(self.rps));
        put(
            "dns",
            json!({
                "ttl": self.dns.ttl.as_ref().map(|ttl| &ttl.written),
                "select": self.dns.select.map(|select| select.name()),
                "policy": self.dns.policy.map(|policy| policy.name()),
            }),
        );
        put("maxRedirects", json!(self.max_redirects));
        put("userAgent", json!(self.user_agent));
        put("batch", json!(self.batch));
        put("batchPerHost", json!(self.batch_per_host));
        put("httpDebug", json!(self.http_debug.map(debug_name)));
        put("insecureSkipTLSVerify", json!(self.insecure_skip_tls_verify));
        put("tlsCipherSuites", json!(self.tls_cipher_suites));
        let name = |version: Option<TlsVersion>| version.map_or("", TlsVersion::name);
        let versions = self.tls_version.map(|v| json!({ "min": name(v.min), "max": name(v.max) }));
        put("tlsVersion", json!(versions));
        put("tlsAuth", list(self.tls_auth.as_deref(), tls_auth));
        put("throw", json!(self.throw));
        let entry = |(metric, list_of): &(String, Vec<Threshold>)| {
            (metric.clone(), Value::Array(list_of.iter().map(threshold).collect()))
        };
        put("thresholds", sorted(self.thresholds.as_ref().map(|t| t.iter().map(entry))));
        put("blacklistIPs", list(self.blacklist_ips.as_deref(), |range| json!(range.to_string())));
        let pattern = list(self.block_hostnames.as_deref(), |pattern| json!(pattern.as_str()));
        put("blockHostnames", pattern);
        let hosts = self.hosts.as_ref().map(|hosts| {
            hosts.iter().map(|(host, address)| (host.clone(), json!(address.to_string())))
        });
        put("hosts", sorted(hosts));
        put("noConnectionReuse", json!(self.no_connection_reuse));
        put("noVUConnectionReuse", json!(self.no_vu_connection_reuse));
        put("minIterationDuration", time(self.min_iteration_duration));
        if let Some(cloud) = &self.cloud {
            put("cloud", cloud.clone());
        }
        put("ext", json!(self.ext));
        put("summaryTrendStats", json!(self.summary_trend_stats));
        put("summaryTimeUnit", json!(self.summary_time_unit));
        put("systemTags", json!(self.system_tags));
        put("tags", json!(self.tags));
        put("metricSamplesBufferSize", json!(self.metric_samples_buffer_size));
        put("noCookiesReset", json!(self.no_cookies_reset));
        put("discardResponseBodies", json!(self.discard_response_bodies));
        put("consoleOutput", json!(self.console_output));
        put("localIPs", json!(self.local_ips.as_ref().map(|(written, _)| written)));
        Value::Object(out)
    }
}

fn time(duration: Option<Duration>) -> Value {
    json!(duration.map(duration_text))
}

fn text<T: ToString>(value: Option<&T>) -> Value {
    json!(value.map(T::to_string))
}

fn list<T>(items: Option<&[T]>, item: impl Fn(&T) -> Value) -> Value {
    items.map_or(Value::Null, |items| Value::Array(items.iter().map(item).collect()))
}

fn sorted(entries: Option<impl Iterator<Item = (String, Value)>>) -> Value {
    let Some(entries) = entries else { return Value::Null };
    let mut entries: Vec<(String, Value)> = entries.collect();
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    Value::Object(entries.into_iter().collect())
}

fn debug_name(debug: HttpDebug) -> &'static str {
    match debug {
        HttpDebug::Headers => "headers",
        HttpDebug::Full => "full",
    }
}

fn tls_auth(auth: &TlsAuth) -> Value {
    json!({
        "domains": auth.domains,
        "cert": auth.cert,
        "key": auth.key,
        "password": auth.password,
    })
}

/// A threshold that does not abort says no more than its expression.
fn threshold(threshold: &Threshold) -> Value {
    if !threshold.abort_on_fail {
        return json!(threshold.threshold);
    }
    json!({
        "threshold": threshold.threshold,
        "abortOnFail": threshold.abort_on_fail,
        "delayAbortEval": time(threshold.delay_abort_eval),
    })
}

fn stages(stages: Option<&[StageOptions]>) -> Value {
    list(stages, |stage| json!({ "duration": time(stage.duration), "target": stage.target }))
}

fn scenarios(scenarios: Option<&[ScenarioOptions]>) -> Value {
    sorted(scenarios.map(|all| all.iter().map(|s| (s.name.clone(), scenario(s)))))
}

fn scenario(scenario: &ScenarioOptions) -> Value {
    let mut out = Map::new();
    let mut put = |key: &str, value: Value| out.insert(key.to_string(), value);
    put("executor", json!(scenario.executor.name()));
    put("startTime", time(scenario.start_time));
    put("gracefulStop", time(scenario.graceful_stop));
    put("env", json!(scenario.env));
    put("exec", json!(scenario.exec));
    put("tags", json!(scenario.tags));
    if let Some(browser) = &scenario.browser {
        put("options", json!({ "browser": browser }));
    }
    let external = scenario.executor == ExecutorKind::ExternallyControlled;
    for key in scenario.executor.keys() {
        let value = match *key {
            "vus" => json!(scenario.vus),
            "iterations" => json!(scenario.iterations),
            "duration" => time(scenario.duration),
            "maxDuration" => time(scenario.max_duration),
            "startVUs" => json!(scenario.start_vus),
            "startRate" => json!(scenario.start_rate),
            "rate" => json!(scenario.rate),
            "timeUnit" => time(scenario.time_unit),
            "gracefulRampDown" => time(scenario.graceful_ramp_down),
            "preAllocatedVUs" => json!(scenario.pre_allocated_vus),
            "maxVUs" if external => json!(scenario.max_vus.or(scenario.vus)),
            "maxVUs" => json!(scenario.max_vus),
            _ => stages(scenario.stages.as_deref()),
        };
        put(key, value);
    }
    Value::Object(out)
}
