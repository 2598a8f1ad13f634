//! The report: one HTML file that asks for nothing, `--report FILE.html` and `volley report`.
//!
//! ```text
//! record ──▶ markup, SVG         complete without JavaScript: verdict, tables, three charts
//!        └─▶ gzip, base64 ──▶ assets/app.js (from `web/`) makes charts and steps interactive
//! ```
//!
//! - **Offline**: style, script and data are inside; the content security policy of the page allows
//!   exactly these two by their hashes, and no connection at all.
//! - **Nothing from a plan or a server becomes markup**: every text is escaped, and the record is
//!   base64, so that it can end no element.

mod charts;
pub(crate) mod findings;
pub(crate) mod markup;
pub(crate) mod sections;

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::format;
use crate::record::Record;
use charts::{Axis, Line};
use markup::{Part, escaped};

/// Built from `web/`, see its README.
pub const SCRIPT: &str = include_str!("../assets/app.js");
pub const STYLE: &str = include_str!("../assets/app.css");
/// Licences of what is inside the script.
pub const NOTICE: &str = include_str!("../assets/NOTICE");
/// Rows of the table that says the same as the charts.
const TABLE_ROWS: usize = 60;

/// The whole page.
pub fn page(record: &Record) -> String {
    let document = Part(record.document());
    let summary = document.key("summary");
    let data = BASE64.encode(record.bytes());
    let title = format!("{} · Volley", summary.key("plan").text());
    let policy = format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; img-src data: blob:; \
         base-uri 'none'; form-action 'none'",
        hash(SCRIPT),
        hash(STYLE)
    );
    let mut html = String::with_capacity(data.len() + SCRIPT.len() + (256 << 10));
    let _ = write!(
        html,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta name=\"generator\" content=\"Volley {}\">\n<title>{title}</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n",
        document.at("/volley/version").text(),
    );
    html.push_str(&sections::header(document));
    html.push_str("<main>");
    html.push_str(&sections::figures(summary));
    html.push_str(&sections::thresholds(summary));
    html.push_str(&over_time(document, summary));
    html.push_str(&sections::steps(summary));
    html.push_str(&sections::checks(document));
    html.push_str(&findings::errors(summary));
    html.push_str(&findings::rest(summary));
    let _ = write!(
        html,
        "</main>\n<footer><p>Made by Volley {}. Percentiles of the whole run are within {} of their value, those over \
         time within {}. This file holds the run's whole record and asks for nothing from anywhere.</p>\
         <details><summary>Licences</summary><pre tabindex=\"0\">{}</pre></details></footer>\n\
         <script type=\"application/octet-stream\" id=\"record\">{data}</script>\n\
         <script>{SCRIPT}</script>\n</body>\n</html>\n",
        document.at("/volley/version").text(),
        format::percent(summary.at("/histogram/relative_error").number()),
        format::percent(summary.key("history_relative_error").number()),
        escaped(NOTICE),
    );
    html
}

fn hash(text: &str) -> String {
    BASE64.encode(Sha256::digest(text.as_bytes()))
}

/// The middle of a slot, in seconds.
fn middle(point: Part<'_>) -> f64 {
    point.key("at_s").number() - point.key("over_s").number() / 2.0
}

/// Rate, percentiles and heatmap; the script puts its own charts in their place.
fn over_time(document: Part<'_>, summary: Part<'_>) -> String {
    let points: Vec<Part<'_>> = summary.key("history").list().collect();
    let end = points.last().map_or(0.0, |point| point.key("at_s").number());
    let seconds = end.max(summary.key("elapsed_s").number()).max(0.001);
    let line = |name, class, color, of: &dyn Fn(Part<'_>) -> f64| Line {
        name,
        class,
        color,
        points: points.iter().map(|point| (middle(*point), of(*point))).collect(),
    };
    let rate = |key: &'static str| {
        move |point: Part<'_>| point.key(key).number() / point.key("over_s").number().max(1e-9)
    };
    let measured = |key: &'static str| move |point: Part<'_>| point.key(key).number();
    let percentiles = [
        line("p50", "c1", "#2767b3", &measured("p50_ms")),
        line("p95", "c2", "#b26a00", &measured("p95_ms")),
        line("p99", "c3", "#b3261e", &measured("p99_ms")),
    ];
    let rates = [
        line("requests per second", "c1", "#2767b3", &rate("requests")),
        line("failed per second", "c3", "#b3261e", &rate("failed")),
    ];
    let mut html = String::from("<section id=\"time\"><h2>Over time</h2><div id=\"charts\">");
    let about = format!("From {} points over {}", points.len(), format::time_ms(seconds * 1e3));
    if points.is_empty() {
        html.push_str("<p class=\"quiet\">The run ended before anything was measured.</p>");
    } else {
        let _ = write!(
            html,
            "<figure><figcaption>Requests per second</figcaption>{}</figure>\
             <figure><figcaption>Latency percentiles</figcaption>{}</figure>",
            charts::lines("Requests per second", &about, Axis::PerSecond, seconds, &rates),
            charts::lines("Latency percentiles", &about, Axis::Latency, seconds, &percentiles),
        );
    }
    if let Some(heatmap) =
        charts::heatmap("Latency of all requests over time", document.key("history"), seconds)
    {
        let _ = write!(
            html,
            "<figure><figcaption>Latency of all requests</figcaption>{heatmap}</figure>"
        );
    }
    html.push_str("</div>");
    html.push_str(&table(&points));
    html.push_str("</section>");
    html
}

/// The charts in words.
fn table(points: &[Part<'_>]) -> String {
    let mut html = String::from(
        "<details class=\"asTable\"><summary>The same as a table</summary>\
         <div class=\"wide\" tabindex=\"0\"><table><thead><tr>\
         <th class=\"number\">At</th><th class=\"number\">Requests/s</th><th class=\"number\">Failed</th>\
         <th class=\"number\">VUs</th><th class=\"number\">p50</th><th class=\"number\">p95</th>\
         <th class=\"number\">p99</th></tr></thead><tbody>",
    );
    let every = points.len().div_ceil(TABLE_ROWS).max(1);
    for point in points.iter().step_by(every) {
        let ms = |key: &str| format::time_ms(point.key(key).number());
        let _ = write!(
            html,
            "<tr><td class=\"number\">{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td>\
             <td class=\"number\">{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td>\
             <td class=\"number\">{}</td></tr>",
            format::time_ms(point.key("at_s").number() * 1e3),
            format::rate(point.key("requests").number() / point.key("over_s").number().max(1e-9)),
            format::count(point.key("failed").count()),
            format::count(point.key("vus").count()),
            ms("p50_ms"),
            ms("p95_ms"),
            ms("p99_ms"),
        );
    }
    html.push_str("</tbody></table></div></details>");
    html
}

/// For tests: what the page carries.
pub fn record_of(page: &str) -> Option<Value> {
    let from = page.find("id=\"record\">")? + "id=\"record\">".len();
    let to = from + page[from..].find('<')?;
    let bytes = BASE64.decode(&page[from..to]).ok()?;
    Record::from_bytes(&bytes).ok().map(|record| record.document().clone())
}
