//! The parts of the page in the order in which people ask: did it pass, may I trust it, what held,
//! how fast, what failed.
//!
//! Everything is plain markup with words beside colours, so that it is complete without scripts,
//! without styles and on paper. Numbers come from the record's summary as they are.

use std::fmt::Write;

use stats::Unit;

use super::markup::{Part, escaped};
use crate::format;

/// Rows of a table that is there for reading, not for data.
pub const ROWS_MAX: usize = 200;

/// Outcome, verdict, exit code, and what was run where.
pub fn header(record: Part<'_>) -> String {
    let summary = record.key("summary");
    let code = summary.key("exit_code").number() as i64;
    let (word, class, sign) =
        if code == 0 { ("Passed", "good", "✓") } else { ("Failed", "bad", "✗") };
    let state = summary.at("/verdict/state").raw();
    let (trust, trust_class, trust_sign) = match state {
        "valid" => ("Valid measurement", "good", "✓"),
        "degraded" => ("Degraded measurement", "warn", "!"),
        _ => ("Invalid measurement", "bad", "✗"),
    };
    let mut html = format!(
        "<header><p class=\"brand\">Volley · load test report</p><h1>{}</h1><p class=\"badges\">\
         <strong class=\"badge {class}\"><span aria-hidden=\"true\">{sign}</span> {word}</strong> \
         <strong class=\"badge {trust_class}\"><span aria-hidden=\"true\">{trust_sign}</span> \
         {trust}</strong></p><p class=\"why\">{} <span class=\"quiet\">(exit code {code})</span></p>",
        summary.key("plan").text(),
        sentence(summary.key("exit_reason").raw()),
    );
    reasons(&mut html, summary);
    facts(&mut html, record, true);
    html.push_str("</header>");
    html
}

/// Why the measurement is not beyond doubt.
pub fn reasons(html: &mut String, summary: Part<'_>) {
    let reasons: Vec<String> =
        summary.at("/verdict/reasons").list().map(|reason| reason.text()).collect();
    if !reasons.is_empty() {
        html.push_str("<ul class=\"reasons\">");
        reasons.iter().for_each(|reason| html.push_str(&format!("<li>{reason}</li>")));
        html.push_str("</ul>");
    }
}

/// What was run, where and when; `over`: how long it took, and what came of it.
pub fn facts(html: &mut String, record: Part<'_>, over: bool) {
    let summary = record.key("summary");
    html.push_str("<dl class=\"facts\">");
    let elapsed = summary.key("elapsed_s").number();
    let of_the_end = |value: String| if over { value } else { String::new() };
    for (name, value) in [
        ("Started", summary.key("started_at").text().replace('T', " ")),
        ("Length", of_the_end(format::time_ms(elapsed * 1e3))),
        ("Outcome", of_the_end(summary.key("outcome").text().to_lowercase())),
        ("Target", targets(summary)),
        ("Run by", place(record)),
        ("File", record.key("file").text()),
        ("Volley", record.at("/volley/version").text()),
    ] {
        if !value.is_empty() {
            let _ = write!(html, "<div><dt>{name}</dt><dd>{value}</dd></div>");
        }
    }
    html.push_str("</dl>");
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    escaped(&format!("{first}{}", letters.as_str()))
}

/// Hosts of the steps' URLs, as far as the plan has them.
fn targets(summary: Part<'_>) -> String {
    let mut hosts: Vec<&str> = Vec::new();
    for (_, step) in summary.key("steps").entries() {
        let url = step.key("url").raw();
        let Some((scheme, rest)) = url.split_once("://") else { continue };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let host = &url[..scheme.len() + 3 + end];
        if !hosts.contains(&host) && hosts.len() < 4 {
            hosts.push(host);
        }
    }
    escaped(&hosts.join(", "))
}

fn place(record: Part<'_>) -> String {
    let cores = record.at("/summary/generator/cores").count();
    let cores = format::plural(cores, "core");
    match record.key("job").raw() {
        "" => format!(
            "{cores} of this machine ({}, {})",
            record.at("/machine/system").text(),
            record.at("/machine/architecture").text()
        ),
        job => format!("{cores} of a cluster, job {}", escaped(job)),
    }
}

/// The numbers that everybody looks for.
pub fn figures(summary: Part<'_>) -> String {
    let requests = summary.key("requests");
    let (count, failed) = (requests.key("count").count(), requests.key("failed").count());
    let latency = summary.key("latency_ms");
    let ms = |name: &str| format::time_ms(latency.key(name).number());
    let dropped = summary.key("dropped_iterations").count();
    let mut cards = vec![
        (
            "Requests",
            format::count(count),
            format!("{} per second", format::rate(requests.key("rate").number())),
        ),
        ("Failed", format::share(failed, count), format!("{} requests", format::count(failed))),
        ("p50", ms("p50"), format!("mean {}", ms("mean"))),
        ("p95", ms("p95"), format!("p90 {}", ms("p90"))),
        ("p99", ms("p99"), format!("p99.9 {}", ms("p999"))),
        ("Slowest", ms("max"), format!("fastest {}", ms("min"))),
        (
            "Received",
            format::bytes(summary.key("data_received").number()),
            format!("sent {}", format::bytes(summary.key("data_sent").number())),
        ),
        ("Iterations", format::count(summary.key("iterations").count()), String::new()),
    ];
    if dropped > 0 {
        let causes: Vec<&str> = summary.key("dropped").entries().map(|(cause, _)| cause).collect();
        cards.push(("Dropped", format::count(dropped), escaped(&causes.join(", "))));
    }
    let mut html = String::from("<section class=\"figures\" aria-label=\"Key figures\">");
    for (name, value, more) in cards {
        let hurts = (name == "Failed" && failed > 0) || name == "Dropped";
        let class = if hurts { " hurt" } else { "" };
        let _ = write!(
            html,
            "<div class=\"card{class}\"><h2>{name}</h2><p class=\"value\">{value}</p>\
             <p class=\"quiet\">{more}</p></div>"
        );
    }
    html.push_str("</section>");
    html
}

fn unit(name: &str) -> Unit {
    match name {
        "ms" => Unit::Milliseconds,
        "fraction" => Unit::Fraction,
        "per_second" => Unit::PerSecond,
        "count" => Unit::Count,
        _ => Unit::Plain,
    }
}

/// Failed ones first.
pub fn thresholds(summary: Part<'_>) -> String {
    let mut all: Vec<(usize, Part<'_>)> = summary.key("thresholds").list().enumerate().collect();
    let mut html = String::from("<section id=\"thresholds\"><h2>Thresholds</h2>");
    if all.is_empty() {
        html.push_str("<p class=\"quiet\">The plan has none.</p></section>");
        return html;
    }
    all.sort_by_key(|(_, threshold)| threshold.key("ok").is_true());
    html.push_str(
        "<div class=\"wide\"><table><thead><tr><th>Result</th><th>Metric</th><th>Must hold</th>\
         <th class=\"number\">Measured</th><th class=\"trend\">Over time</th></tr></thead><tbody>",
    );
    for (number, threshold) in all {
        let ok = threshold.key("ok").is_true();
        let (class, word) = match (ok, threshold.key("value").is_null()) {
            (false, _) => ("bad", "✗ broken"),
            (true, false) => ("good", "✓ held"),
            // While the run goes on; at the end this is not "held".
            (true, true) => ("warn", "not yet measured"),
        };
        let value = match threshold.key("value") {
            value if value.is_null() => "nothing measured".to_owned(),
            value => format::value(value.number(), unit(threshold.key("unit").raw())),
        };
        let _ = write!(
            html,
            "<tr><td><span class=\"mark {class}\">{word}</span></td><td>{}</td><td><code>{}</code>{}</td>\
             <td class=\"number\">{value}</td><td class=\"trend\" data-threshold=\"{number}\"></td></tr>",
            threshold.key("label").text(),
            threshold.key("hold").text(),
            if threshold.key("abort").is_true() {
                " <span class=\"quiet\">else stop</span>"
            } else {
                ""
            },
        );
    }
    html.push_str("</tbody></table></div></section>");
    html
}

/// Every step, and its tag values below it.
pub fn steps(summary: Part<'_>) -> String {
    let mut html = String::from(
        "<section id=\"steps\"><h2>Steps</h2><div class=\"wide\"><table><thead><tr><th>Step</th>",
    );
    for name in
        ["Requests", "Per second", "Failed", "Min", "p50", "p90", "p95", "p99", "p99.9", "Max"]
    {
        let _ = write!(html, "<th class=\"number\">{name}</th>");
    }
    html.push_str("</tr></thead><tbody>");
    let mut left = ROWS_MAX;
    for (name, step) in
        summary.key("steps").entries().filter(|(_, step)| step.at("/requests/count").count() > 0)
    {
        if left == 0 {
            break;
        }
        left -= 1;
        let requests = step.key("requests");
        let (count, failed) = (requests.key("count").count(), requests.key("failed").count());
        let about = format!("{} {}", step.key("method").text(), step.key("url").text());
        let about = format!("<br><span class=\"quiet\">{}</span>", about.trim());
        row(
            &mut html,
            "",
            &format!("{}{about}", escaped(name)),
            (count, failed),
            requests.key("rate").number(),
            step.key("latency_ms"),
        );
        for (tags, part) in step.key("tags").entries().take(left.min(64)) {
            let counts = (part.key("count").count(), part.key("failed").count());
            let share = counts.0 as f64 / count.max(1) as f64;
            row(
                &mut html,
                "part",
                &escaped(tags),
                counts,
                requests.key("rate").number() * share,
                part.key("latency_ms"),
            );
        }
    }
    html.push_str("</tbody></table></div></section>");
    html
}

fn row(
    html: &mut String,
    class: &str,
    name: &str,
    (count, failed): (u64, u64),
    rate: f64,
    latency: Part<'_>,
) {
    let hurt = if failed > 0 { " hurt" } else { "" };
    let _ = write!(
        html,
        "<tr class=\"{class}\"><th scope=\"row\">{name}</th><td class=\"number\">{}</td><td class=\"number\">{}</td>\
         <td class=\"number{hurt}\">{}</td>",
        format::count(count),
        format::rate(rate),
        if failed > 0 {
            format!("{} ({})", format::count(failed), format::share(failed, count))
        } else {
            "0".to_owned()
        },
    );
    for name in ["min", "p50", "p90", "p95", "p99", "p999", "max"] {
        let _ = write!(
            html,
            "<td class=\"number\">{}</td>",
            format::time_ms(latency.key(name).number())
        );
    }
    html.push_str("</tr>");
}

/// Checks of a plan, or of a script by group.
pub fn checks(record: Part<'_>) -> String {
    let mut rows: Vec<(String, String, u64, u64)> = Vec::new();
    for (name, check) in record.at("/summary/checks").entries() {
        let (passes, fails) = (check.key("passes").count(), check.key("fails").count());
        rows.push((check.key("step").text(), escaped(name), passes, fails));
    }
    for group in record.at("/script/groups").list() {
        let path = group.key("group").raw().trim_start_matches("::").replace("::", " › ");
        for check in group.key("checks").list() {
            let (passes, fails) = (check.key("passes").count(), check.key("fails").count());
            rows.push((escaped(&path), check.key("name").text(), passes, fails));
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    rows.sort_by_key(|row| row.3 == 0);
    let place = if record.key("script").is_null() { "Step" } else { "Group" };
    let mut html = format!(
        "<section id=\"checks\"><h2>Checks</h2><div class=\"wide\"><table><thead><tr><th>Result</th><th>{place}</th>\
         <th>Check</th><th class=\"number\">Passed</th><th class=\"number\">Failed</th></tr></thead><tbody>"
    );
    for (place, name, passes, fails) in rows.into_iter().take(ROWS_MAX) {
        let (class, word) = if fails == 0 { ("good", "✓ held") } else { ("bad", "✗ broken") };
        let _ = write!(
            html,
            "<tr><td><span class=\"mark {class}\">{word}</span></td><td>{place}</td><td>{name}</td>\
             <td class=\"number\">{}</td><td class=\"number\">{} ({})</td></tr>",
            format::count(passes),
            format::count(fails),
            format::share(fails, passes + fails),
        );
    }
    html.push_str("</tbody></table></div></section>");
    html
}
