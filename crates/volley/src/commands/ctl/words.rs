//! The status of a run in words; `--json` is for programs.

use report::format;
use serde_json::Value;

/// A few lines about `status`, as the run has told it.
pub(super) fn status(status: &Value) -> String {
    let number = |key: &str| status[key].as_u64().unwrap_or_default();
    let seconds = |key: &str| status[key].as_f64().map(|seconds| format::time_ms(seconds * 1e3));
    let of = seconds("planned_s").map(|planned| format!(" of {planned}")).unwrap_or_default();
    let mut out = format!(
        "{} (process {}): {}, {}{of}\n",
        text(&status["plan"]),
        number("pid"),
        text(&status["state"]),
        seconds("elapsed_s").unwrap_or_default(),
    );
    let mut parts = vec![
        format::plural(number("vus"), "VU"),
        format::plural(number("requests"), "request"),
        format!("{}/s", format::rate(status["rate"].as_f64().unwrap_or_default())),
        format!("{} failed", format::count(number("failed"))),
    ];
    if let Some(p95) = status["p95_ms"].as_f64().filter(|p95| *p95 > 0.0) {
        parts.push(format!("p95 {}", format::time_ms(p95)));
    }
    if number("requests") == 0 && number("under_way") > 0 {
        let waiting = format::plural(number("under_way"), "request");
        parts = vec![format!("{waiting} under way, nothing has come back yet")];
    }
    out += &format!("  {}\n", parts.join(", "));
    for workflow in status["workflows"].as_array().into_iter().flatten() {
        out += &format!("  {}\n", workflow_line(workflow));
    }
    out
}

/// `main: running, 41%, 5 VUs, 1,234 iterations; ramping-vus, up to 50 VUs, now: to 50 over 20s`
fn workflow_line(workflow: &Value) -> String {
    let number = |key: &str| workflow[key].as_u64().unwrap_or_default();
    let percent = (workflow["progress"].as_f64().unwrap_or_default() * 100.0).floor();
    let mut line = format!(
        "{}: {}, {percent}%, {}, {}",
        text(&workflow["name"]),
        text(&workflow["state"]),
        format::plural(number("vus"), "VU"),
        format::plural(number("iterations"), "iteration"),
    );
    if number("dropped") > 0 {
        line += &format!(", {} dropped", format::count(number("dropped")));
    }
    line += &format!("; {}", text(&workflow["load"]));
    let stage = text(&workflow["stage"]);
    if !stage.is_empty() {
        line += &format!(", now: {stage}");
    }
    line
}

fn text(value: &Value) -> String {
    format::clean(value.as_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_status_is_told_in_a_line_for_the_run_one_for_its_numbers_and_one_for_each_workflow() {
        let told = json!({
            "plan": "shop", "pid": 42, "state": "running", "elapsed_s": 12.3, "planned_s": 600.0,
            "requests": 1234, "failed": 1, "rate": 98.7, "p95_ms": 20.8, "vus": 5,
            "workflows": [{
                "name": "main", "state": "running", "progress": 0.415, "load": "ramping-vus, up to 50 VUs",
                "stage": "to 50", "vus": 5, "iterations": 617, "dropped": 2,
            }],
        });
        assert_eq!(
            status(&told),
            "shop (process 42): running, 12.3s of 10m00s\n\
             \x20 5 VUs, 1,234 requests, 98.7/s, 1 failed, p95 20.8ms\n\
             \x20 main: running, 41%, 5 VUs, 617 iterations, 2 dropped; ramping-vus, up to 50 VUs, now: to 50\n"
        );
        let silent = json!({ "plan": "shop", "pid": 42, "state": "running", "elapsed_s": 2.0, "under_way": 12 });
        assert!(status(&silent).contains("12 requests under way, nothing has come back yet"));
    }
}
