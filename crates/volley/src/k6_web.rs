//! k6's web dashboard, as it is asked for there: `--out web-dashboard=port=5665&open` is `--web`,
//! and its report `--report`.

use std::ffi::OsString;
use std::net::SocketAddr;

use script::options::values as k6;
use web::Listen;

use crate::cli::OutputArgs;

const NAME: &str = "web-dashboard";

/// The command line with our flags in the place of k6's output.
pub fn arguments(given: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut args = Vec::new();
    let mut given = given.peekable();
    while let Some(arg) = given.next() {
        let text = arg.to_str().unwrap_or_default();
        let joined = ["--out=", "--output=", "-o="].iter().find_map(|flag| text.strip_prefix(flag));
        let is_flag = ["--out", "--output", "-o"].contains(&text);
        let next = given.peek().and_then(|next| next.to_str()).filter(|_| is_flag);
        match joined.or(next).and_then(flags) {
            Some(flags) => {
                if joined.is_none() {
                    given.next();
                }
                args.extend(flags.into_iter().map(OsString::from));
            }
            None => args.push(arg),
        }
    }
    args
}

/// `None`: another output.
fn flags(output: &str) -> Option<Vec<String>> {
    let parameters = match output.strip_prefix(NAME)? {
        "" => "",
        rest => rest.strip_prefix('=')?,
    };
    let of = |name: &str| {
        let mut pairs =
            parameters.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        pairs.find(|(known, _)| *known == name).map(|(_, value)| value.to_owned())
    };
    let web = match of("port").as_deref() {
        // k6's word for no page, and only the report.
        Some("-1") => None,
        Some(port) => Some(format!("--web={port}")),
        None => Some("--web".to_owned()),
    };
    let open = of("open").filter(|value| value != "false" && web.is_some());
    let report = of("report").or_else(|| of("export"));
    let report = report.filter(|file| !file.is_empty()).map(|file| format!("--report={file}"));
    Some(web.into_iter().chain(open.map(|_| "--open".to_owned())).chain(report).collect())
}

/// The same from k6's variables, where nothing else was asked for. `var`: none is empty.
pub fn from_environment(output: &mut OutputArgs, var: &dyn Fn(&str) -> Option<String>) {
    let is_on = |name: &str| var(name).is_some_and(|value| k6::boolean(&value).unwrap_or(true));
    if let Some(file) = var("K6_WEB_DASHBOARD_EXPORT").filter(|_| output.keep.report.is_none()) {
        output.keep.report = Some(file.into());
    }
    let in_list = var("K6_OUT").is_some_and(|list| list.split(',').any(is_dashboard));
    if output.web.web.is_some() || !(is_on("K6_WEB_DASHBOARD") || in_list) {
        return;
    }
    let port = var("K6_WEB_DASHBOARD_PORT").and_then(|port| port.parse().ok());
    let at = |port: u16| Listen::At(SocketAddr::from(([127, 0, 0, 1], port)));
    output.web.web = Some(port.map_or(Listen::Usual, at));
    output.web.open |= is_on("K6_WEB_DASHBOARD_OPEN");
}

/// Whether an entry of `K6_OUT` means it.
pub fn is_dashboard(output: &str) -> bool {
    flags(output).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(given: &str, expected: &str) {
        let args = arguments(given.split(' ').map(OsString::from));
        let args: Vec<_> = args.iter().map(|arg| arg.to_str().unwrap()).collect();
        assert_eq!(args.join(" "), expected, "{given}");
    }

    #[test]
    fn k6s_output_becomes_our_flags_and_everything_else_stays() {
        check("run --out web-dashboard s.js", "run --web s.js");
        check("run -o web-dashboard s.js", "run --web s.js");
        check("run --out=web-dashboard=port=5665&open s.js", "run --web=5665 --open s.js");
        check("run --out web-dashboard=report=r.html s.js", "run --web --report=r.html s.js");
        check("run --out web-dashboard=port=-1&report=r.html s.js", "run --report=r.html s.js");
        check("run --out json=x.json s.js -o csv=y", "run --out json=x.json s.js -o csv=y");
        check("run web-dashboard", "run web-dashboard");
        check("run --out", "run --out");
        check("run --out web-dashboards", "run --out web-dashboards");
    }

    #[test]
    fn k6s_variables_mean_the_same() {
        let with = |pairs: &[(&str, &str)]| {
            let mut output = OutputArgs::default();
            from_environment(&mut output, &|name| {
                pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            });
            output
        };
        assert_eq!(with(&[]).web.web, None);
        assert_eq!(with(&[("K6_WEB_DASHBOARD", "false")]).web.web, None);
        assert_eq!(with(&[("K6_WEB_DASHBOARD", "true")]).web.web, Some(Listen::Usual));
        assert_eq!(with(&[("K6_OUT", "json=a,web-dashboard")]).web.web, Some(Listen::Usual));
        let port = with(&[("K6_WEB_DASHBOARD", "1"), ("K6_WEB_DASHBOARD_PORT", "5665")]).web.web;
        assert_eq!(port, Some(Listen::At("127.0.0.1:5665".parse().unwrap())));
        let export = with(&[("K6_WEB_DASHBOARD_EXPORT", "r.html")]);
        assert_eq!(export.keep.report, Some("r.html".into()));
        assert_eq!(export.web.web, None);
    }
}
