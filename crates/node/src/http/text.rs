//! The text format of Prometheus, as much of it as counters and gauges need.

use std::fmt::{Display, Write};

/// A page of metrics in the making. A family is announced once, right before its samples.
#[derive(Default)]
pub(super) struct Page {
    text: String,
    announced: String,
}

impl Page {
    fn announce(&mut self, name: &str, kind: &str, help: &str) {
        if self.announced != name {
            name.clone_into(&mut self.announced);
            // Writing to a string does not fail.
            let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        }
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.text.push_str(name);
        for (at, (label, value)) in labels.iter().enumerate() {
            let _ = write!(self.text, "{}{label}=\"", if at == 0 { '{' } else { ',' });
            for c in value.chars() {
                match c {
                    '\\' => self.text.push_str("\\\\"),
                    '"' => self.text.push_str("\\\""),
                    '\n' => self.text.push_str("\\n"),
                    c => self.text.push(c),
                }
            }
            self.text.push('"');
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{end} {value}");
    }

    pub(super) fn counter(&mut self, name: &str, help: &str, labels: &[(&str, &str)], value: u64) {
        self.announce(name, "counter", help);
        self.sample(name, labels, value);
    }

    /// One counter for each value of a label.
    pub(super) fn counters<'a>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        rows: impl IntoIterator<Item = (&'a str, u64)>,
    ) {
        for (value, count) in rows {
            self.counter(name, help, &[(label, value)], count);
        }
    }

    pub(super) fn gauge(
        &mut self,
        name: &str,
        help: &str,
        labels: &[(&str, &str)],
        value: impl Display,
    ) {
        self.announce(name, "gauge", help);
        self.sample(name, labels, value);
    }

    /// A summary with its quantiles; `values` in seconds, in any order.
    pub(super) fn summary(&mut self, name: &str, help: &str, mut values: Vec<f64>) {
        self.announce(name, "summary", help);
        values.sort_by(f64::total_cmp);
        for (quantile, share) in [("0.5", 0.5), ("0.99", 0.99), ("1", 1.0)] {
            if let Some(last) = values.len().checked_sub(1) {
                let at = (last as f64 * share).round() as usize;
                self.sample(name, &[("quantile", quantile)], values[at.min(last)]);
            }
        }
        self.sample(&format!("{name}_sum"), &[], values.iter().fold(0.0, |sum, value| sum + value));
        self.sample(&format!("{name}_count"), &[], values.len());
    }

    pub(super) fn finish(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_announced_once_and_labels_are_escaped() {
        let mut page = Page::default();
        page.counter("a_total", "Help.", &[("kind", "x\"\\\n")], 1);
        page.counter("a_total", "Help.", &[("kind", "y"), ("role", "z")], 2);
        page.gauge("b", "More.", &[], 0.5);
        page.summary("c_seconds", "Times.", vec![3.0, 1.0, 2.0]);
        page.summary("d_seconds", "None.", vec![]);
        let expected = "# HELP a_total Help.\n# TYPE a_total counter\na_total{kind=\"x\\\"\\\\\\n\"} 1\n\
            a_total{kind=\"y\",role=\"z\"} 2\n# HELP b More.\n# TYPE b gauge\nb 0.5\n\
            # HELP c_seconds Times.\n# TYPE c_seconds summary\nc_seconds{quantile=\"0.5\"} 2\n\
            c_seconds{quantile=\"0.99\"} 3\nc_seconds{quantile=\"1\"} 3\nc_seconds_sum 6\nc_seconds_count 3\n\
            # HELP d_seconds None.\n# TYPE d_seconds summary\nd_seconds_sum 0\nd_seconds_count 0\n";
        assert_eq!(page.finish(), expected);
    }
}
