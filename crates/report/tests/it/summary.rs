//! The document of `--summary`: whole, and the promises that readers rely on.

use crate::common::golden;
use crate::fake;
use report::Summary;
use serde_json::Value;

fn json(result: &stats::RunResult) -> Value {
    serde_json::from_str(&Summary::new(result).to_json()).unwrap()
}

#[test]
fn the_whole_document_is_as_in_the_golden_file() {
    golden("summary_bad.json", &Summary::new(&fake::bad()).to_json());
}

/// R5, R27: what a worker says after the end is added, and nothing that the result said is changed.
#[test]
fn addenda_stand_beside_the_numbers_and_change_none() {
    let (before, result) = (fake::good(), fake::with_addendum());
    let (mut old, mut new) = (json(&before), json(&result));
    let addendum = &new["addenda"][0];
    assert_eq!(addendum["at"], "2026-11-17T20:00:00.000Z");
    assert_eq!((&addendum["workflow"], &addendum["shard"]), (&"shop".into(), &0.into()));
    assert_eq!(addendum["added"]["issued"], 9);
    let requests = &new["corrected"]["requests"];
    assert_eq!((&requests["issued"], &requests["issued_is"]), (&1_009.into(), &"exact".into()));
    let sent = old["requests"]["sent"].as_u64().unwrap();
    assert_eq!(requests["sent"].as_u64(), Some(sent + 8));
    assert_eq!(new["requests"]["issued_is"], "bound");
    for document in [&mut old, &mut new] {
        let fields = document.as_object_mut().unwrap();
        fields.retain(|key, _| !["addenda", "corrected"].contains(&key.as_str()));
        let requests = fields["requests"].as_object_mut().unwrap();
        requests.retain(|key, _| !key.starts_with("issued"));
    }
    assert_eq!(old, new);
}

#[test]
fn every_field_of_schema_1_is_present() {
    let document = json(&fake::good());
    let fields = [
        "/schema",
        "/plan",
        "/started_at",
        "/outcome",
        "/stopped_by",
        "/verdict/state",
        "/verdict/reasons",
        "/exit_code",
        "/exit_reason",
        "/elapsed_s",
        "/requests/count",
        "/requests/sent",
        "/requests/failed",
        "/requests/interrupted",
        "/requests/retried",
        "/requests/rate",
        "/requests/issued",
        "/requests/issued_is",
        "/addenda",
        "/corrected",
        "/latency_ms/min",
        "/latency_ms/mean",
        "/latency_ms/p50",
        "/latency_ms/p90",
        "/latency_ms/p95",
        "/latency_ms/p99",
        "/latency_ms/p999",
        "/latency_ms/max",
        "/service_ms/p99",
        "/steps/login/workflow",
        "/steps/login/requests/count",
        "/steps/login/latency_ms/p999",
        "/steps/login/service_ms/p999",
        "/steps/login/phases_ms/tls_handshaking/p95",
        "/steps/login/status/200",
        "/steps/login/errors",
        "/steps/login/tags",
        "/stages/0/name",
        "/workflows/shop/status",
        "/workflows/shop/iterations",
        "/workflows/shop/dropped",
        "/workflows/shop/vus_max",
        "/workflows/shop/cores",
        "/checks/$.token exists/passes",
        "/checks/$.token exists/fails",
        "/checks/$.token exists/step",
        "/thresholds/0/metric",
        "/thresholds/0/label",
        "/thresholds/0/hold",
        "/thresholds/0/value",
        "/thresholds/0/ok",
        "/thresholds/0/unit",
        "/errors",
        "/error_samples",
        "/metrics/cart_size",
        "/data_sent",
        "/data_received",
        "/iterations",
        "/dropped_iterations",
        "/timeline/0/at_s",
        "/generator/cores",
        "/histogram/relative_error",
        "/notes",
        "/history/0/requests",
        "/history_relative_error",
    ];
    for field in fields {
        assert!(document.pointer(field).is_some(), "{field} is missing");
    }
    assert_eq!(document["schema"], "volley.summary/1");
    assert_eq!(document["outcome"], "COMPLETED");
    assert_eq!(document["verdict"]["state"], "valid");
}

#[test]
fn names_that_occur_twice_are_qualified_and_others_are_not() {
    let document = json(&fake::good());
    let keys = |part: &str| -> Vec<String> {
        document[part].as_object().unwrap().keys().cloned().collect()
    };
    assert_eq!(keys("steps"), ["login", "shop/cart", "search", "search/cart"]);
    assert_eq!(
        keys("checks"),
        [
            "login/status is 200",
            "$.token exists",
            "shop/cart/status is 200",
            "latency < 250ms",
            "body contains items"
        ]
    );
}

#[test]
fn totals_are_the_sums_of_the_steps() {
    let document = json(&fake::bad());
    let steps = document["steps"].as_object().unwrap();
    for field in ["count", "sent", "failed", "interrupted", "retried"] {
        let sum: u64 = steps.values().map(|step| step["requests"][field].as_u64().unwrap()).sum();
        assert_eq!(document["requests"][field].as_u64(), Some(sum), "{field}");
    }
    let errors: u64 =
        document["errors"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
    assert_eq!(document["requests"]["failed"].as_u64(), Some(errors));
    assert_eq!(document["dropped_iterations"], 312);
    assert_eq!(document["dropped"]["no_free_vu"], 310);
}

#[test]
fn a_summary_that_cannot_be_written_is_an_error_not_a_panic() {
    let summary = Summary::new(&fake::good());
    assert!(summary.write("/no/such/folder/summary.json".as_ref()).is_err());
    assert!(summary.write("/dev/full".as_ref()).is_err());
}
