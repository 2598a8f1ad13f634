//! The end of the page: what failed, with exchanges; what happened when; how the generator fared.

use std::fmt::Write;
use std::time::Duration;

use super::markup::{Part, escaped};
use super::sections::ROWS_MAX;
use crate::format;

/// Of an exchange or a message.
const TEXT_MAX: usize = 8 << 10;

/// Kinds of errors by step, with a whole exchange where there is one.
pub fn errors(summary: Part<'_>) -> String {
    let samples: Vec<Part<'_>> = summary.key("error_samples").list().take(ROWS_MAX).collect();
    if samples.is_empty() {
        return String::new();
    }
    let mut html = String::from("<section id=\"errors\"><h2>Errors</h2>");
    for sample in samples {
        let message = format::fit(sample.key("message").raw(), TEXT_MAX);
        let _ = write!(
            html,
            "<div class=\"error\"><p><span class=\"mark bad\">{}</span> <strong>{} of {}</strong></p>\
             <p class=\"message\">{}</p>",
            sample.key("kind").text(),
            format::plural(sample.key("count").count(), "request"),
            sample.key("step").text(),
            escaped(&message),
        );
        exchange(&mut html, sample);
        for later in sample.key("later").list() {
            let message = format::fit(later.key("message").raw(), TEXT_MAX);
            let _ = write!(html, "<p class=\"message quiet\">Also: {}</p>", escaped(&message));
            exchange(&mut html, later);
        }
        html.push_str("</div>");
    }
    html.push_str("</section>");
    html
}

fn exchange(html: &mut String, sample: Part<'_>) {
    let text = sample.key("exchange").raw();
    if !text.is_empty() {
        let at = format::time_ms(sample.key("at_s").number() * 1e3);
        let _ = write!(
            html,
            "<details><summary>One exchange, about {at} after the start, without its \
             credentials</summary><pre tabindex=\"0\">{}</pre></details>",
            escaped(&cut(text))
        );
    }
}

fn cut(text: &str) -> String {
    let mut end = text.len().min(TEXT_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    if end < text.len() { format!("{}\n…", &text[..end]) } else { text.to_owned() }
}

/// What happened when, what the generator used, and remarks.
pub fn rest(summary: Part<'_>) -> String {
    let mut html = String::from("<section id=\"timeline\"><h2>Timeline</h2><ol class=\"events\">");
    for event in summary.key("timeline").list().take(ROWS_MAX) {
        let at = Duration::try_from_secs_f64(event.key("at_s").number()).unwrap_or_default();
        let at = format::moment(at);
        let _ =
            write!(html, "<li><span class=\"when\">{at}</span> {}</li>", event.key("event").text());
    }
    html.push_str(
        "</ol></section><section id=\"generator\"><h2>Load generator</h2><dl class=\"facts\">",
    );
    let generator = summary.key("generator");
    let number = |name: &str| generator.key(name).number();
    for (name, value) in [
        ("Cores", format::count(generator.key("cores").count())),
        ("Busiest core", format::percent(number("busiest_core"))),
        (
            "CPU time",
            format!(
                "{} user, {} system",
                format::time_ms(number("cpu_user_s") * 1e3),
                format::time_ms(number("cpu_system_s") * 1e3)
            ),
        ),
        ("Memory", format::bytes(number("memory_max_bytes"))),
        (
            "Loop lag",
            format!(
                "p99 {}, worst {}",
                format::time_ms(number("loop_lag_p99_ms")),
                format::time_ms(number("loop_lag_max_ms"))
            ),
        ),
        (
            "Descriptors",
            format!(
                "{} of {}",
                format::count(generator.key("descriptors_max").count()),
                format::count(generator.key("descriptors_limit").count())
            ),
        ),
    ] {
        let _ = write!(html, "<div><dt>{name}</dt><dd>{value}</dd></div>");
    }
    html.push_str("</dl></section>");
    let notes: Vec<String> = summary.key("notes").list().map(|note| note.text()).collect();
    if !notes.is_empty() {
        html.push_str("<section id=\"notes\"><h2>Notes</h2><ul>");
        notes.iter().for_each(|note| html.push_str(&format!("<li>{note}</li>")));
        html.push_str("</ul></section>");
    }
    html
}
