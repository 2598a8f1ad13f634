//! Exchanges as text for people: `run --debug`, and samples of failures. Secrets are blotted out.

use std::fmt::Write;

use client::{Failure, Progress, Response};

use crate::secrets::Secrets;

/// Bytes of a body that are shown.
const BODY_SHOWN_MAX: usize = 2048;

/// Header fields whose values are credentials.
const SECRET: [&str; 5] =
    ["authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key"];

pub fn exchange(
    name: &str,
    wire: &[u8],
    body_at: usize,
    response: &Response,
    progress: &Progress,
    failure: Option<&Failure>,
    secrets: &Secrets,
) -> String {
    let mut out = String::new();
    let phases = progress.phases.get();
    let ms = |ns: u64| ns as f64 / 1e6;
    let version = if progress.version.get() == 2 { "2" } else { "1.1" };
    let _ = writeln!(out, "── {name}");
    for line in String::from_utf8_lossy(&wire[..body_at]).lines().filter(|line| !line.is_empty()) {
        // A request is kept in the form of HTTP/1.1 also where it goes out as frames.
        match line.strip_suffix(" HTTP/1.1") {
            Some(first) => drop(writeln!(out, "> {first} HTTP/{version}")),
            None => drop(writeln!(out, "> {}", redact_line(line))),
        }
    }
    body(&mut out, ">", &wire[body_at..], secrets);
    if response.status != 0 {
        let _ = writeln!(out, "< HTTP/{version} {}", response.status);
    }
    for (header, value) in &response.headers {
        let line = format!("{header}: {}", String::from_utf8_lossy(value));
        let _ = writeln!(out, "< {}", redact_line(&line));
    }
    body(&mut out, "<", &response.body, secrets);
    if let Some(failure) = failure {
        let _ = writeln!(out, "! {failure}");
    }
    let _ = writeln!(
        out,
        "  blocked {:.3} ms (connecting {:.3}, tls {:.3}), sending {:.3}, waiting {:.3}, receiving {:.3}",
        ms(phases.blocked),
        ms(phases.connecting),
        ms(phases.tls_handshaking),
        ms(phases.sending),
        ms(phases.waiting),
        ms(phases.receiving),
    );
    secrets.shown(out)
}

fn redact_line(line: &str) -> String {
    match line.split_once(':') {
        Some((name, value)) if SECRET.contains(&name.to_ascii_lowercase().as_str()) => {
            // The scheme (`Bearer`) helps to find mistakes and gives nothing away; twice, it is
            // one.
            let mut shown = String::new();
            let mut rest = value.trim();
            if name.eq_ignore_ascii_case("authorization")
                && let Some((scheme, after)) = rest.split_once(' ')
            {
                let _ = write!(shown, "{scheme} ");
                rest = after.trim_start();
                while let Some((again, after)) = rest.split_once(' ')
                    && again.eq_ignore_ascii_case(scheme)
                {
                    let _ = write!(shown, "{again} ");
                    rest = after.trim_start();
                }
            }
            format!("{name}: {shown}{}", if is_placeholder(rest) { rest } else { "•••" })
        }
        _ => line.to_owned(),
    }
}

fn body(out: &mut String, mark: &str, bytes: &[u8], secrets: &Secrets) {
    if bytes.is_empty() {
        return;
    }
    // Before it is cut to length: the beginning of a secret is as bad as all of it.
    let clean;
    let bytes = match secrets.occurs_in(bytes) {
        true => {
            clean = secrets.redact_bytes(bytes);
            &clean
        }
        false => bytes,
    };
    let shown = &bytes[..bytes.len().min(BODY_SHOWN_MAX)];
    match std::str::from_utf8(shown) {
        Ok(text) => {
            for line in text.lines() {
                let _ = writeln!(out, "{mark} {}", redact_json(line));
            }
        }
        Err(_) if bytes.len() > shown.len() => {
            for line in String::from_utf8_lossy(shown).lines() {
                let _ = writeln!(out, "{mark} {}", redact_json(line));
            }
        }
        Err(_) => {
            let _ = writeln!(out, "{mark} ({} bytes, not text)", bytes.len());
        }
    }
    if bytes.len() > shown.len() {
        let _ = writeln!(out, "{mark} … {} bytes more", bytes.len() - shown.len());
    }
}

/// `"password": "hunter2"` and its like, in bodies that were logged in good faith.
pub fn redact_json(line: &str) -> std::borrow::Cow<'_, str> {
    use std::sync::LazyLock;
    static PAIR: LazyLock<regex::Regex> = LazyLock::new(|| {
        let names = "password|passwd|secret|token|access_token|refresh_token|api_key";
        let pattern = format!(r#"(?i)("(?:{names})"\s*:\s*)"([^"]*)""#);
        regex::Regex::new(&pattern).expect("a fixed pattern")
    });
    PAIR.replace_all(line, |found: &regex::Captures<'_>| match is_placeholder(&found[2]) {
        true => found[0].to_owned(),
        false => format!("{}\"•••\"", &found[1]),
    })
}

/// `${token}` that nobody filled in is no secret, and what one looks for.
fn is_placeholder(text: &str) -> bool {
    let inner = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    inner.is_some_and(|inner| {
        let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
        !inner.is_empty() && inner.len() <= 60 && inner.chars().all(plain)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_do_not_show() {
        let head =
            "POST /login HTTP/1.1\r\nAuthorization: Bearer abc.def\r\ncookie: sid=42\r\n\r\n";
        let wire = format!("{head}{}", r#"{"user":"ann","password":"hunter2"}"#);
        let (wire, body_at) = (wire.as_bytes(), head.len());
        let text = exchange(
            "login",
            wire,
            body_at,
            &Response::default(),
            &Progress::default(),
            None,
            &Secrets::default(),
        );
        for secret in ["abc.def", "sid=42", "hunter2"] {
            assert!(!text.contains(secret), "{text}");
        }
        assert!(text.contains("Bearer •••") && text.contains("\"user\":\"ann\""), "{text}");
    }

    #[test]
    fn masking_hides_secrets_and_no_mistakes() {
        for (line, shown) in [
            ("authorization: Bearer abc", "authorization: Bearer •••"),
            ("authorization: Bearer Bearer abc", "authorization: Bearer Bearer •••"),
            ("authorization: Bearer ${token}", "authorization: Bearer ${token}"),
            ("authorization: abc", "authorization: •••"),
        ] {
            assert_eq!(redact_line(line), shown);
        }
        assert_eq!(redact_json(r#"{"token": "${token}"}"#), r#"{"token": "${token}"}"#);
        assert_eq!(redact_json(r#"{"token": "${t"}"#), r#"{"token": "•••"}"#);
    }
}
