//! What hands do that know another tool: flags that Volley writes differently, answered with its own.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// A flag as others write it, and what to say. Where a letter means different things to different tools, all are named.
const HABITS: [(&[&str], &str); 16] = [
    (&["-t", "--threads"], "wrk's threads are `--cores N` here; all cores are used without it"),
    (
        &["--latency"],
        "latencies are always shown, measured from the intended start of each request",
    ),
    (
        &["-s", "--script"],
        "a script is run by `volley run script.js` (k6's language; wrk's Lua is not spoken)",
    ),
    (&["-z"], "how long is `-d TIME` here: `-d 30s`"),
    (&["--qps", "--rps"], "requests a second are `-r RATE` here: `-r 500`"),
    (&["-T"], "a content type is a header here: `-H 'Content-Type: application/json'`"),
    (&["-D", "--body-file"], "a body from a file is `-b @FILE` here"),
    (
        &["--data", "--data-raw", "--data-binary", "--json"],
        "a body is `-b TEXT` or `-b @FILE` here, its type a header: `-H 'Content-Type: ...'`",
    ),
    (&["-X", "--request"], "the method is `-m METHOD` here: `-m POST`"),
    (
        &["-a", "-A", "--user"],
        "credentials go into the URL, `http://user:password@host/`, or into a header: `-H 'Authorization: ...'`",
    ),
    (&["--http2", "-2", "--h2"], "the HTTP version is `--http 2` here"),
    (&["--http1.1", "--http1"], "the HTTP version is `--http 1.1` here"),
    (
        &["--no-tui", "--no-progress"],
        "without a live view: `--view none`, or `-q` for the verdict alone",
    ),
    (
        &["-u", "--vus", "--users", "--concurrency"],
        "connections of a short test are `-c N`; virtual users of a plan or a script are `volley run FILE --vus N`",
    ),
    (
        &["--disable-keepalive", "--no-keepalive"],
        "connections are kept unless a plan says otherwise: `http: { keep_alive: false }`",
    ),
    (
        &["--insecure", "--no-verify"],
        "any certificate is accepted with `-k` (`volley URL`), or `tls: { insecure: true }` in a plan",
    ),
];

/// What to say to a flag that is not known here.
pub fn answer(error: &clap::Error, args: impl Iterator<Item = String>) -> Option<String> {
    // oha's; here the number would be a place to send requests to.
    let mut after = args.skip_while(|arg| arg != "-q").skip(1);
    if let Some(rate) = after.next().filter(|arg| arg.parse::<f64>().is_ok()) {
        return Some(format!("`-q` is `--quiet` here; requests a second are `-r {rate}`"));
    }
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    // Clap names `-z` of `-z10s`.
    let flag = unknown.split(['=', ' ']).next().unwrap_or_default();
    let known = HABITS.iter().find(|(flags, _)| flags.contains(&flag));
    known.map(|(_, answer)| format!("`{flag}`: {answer}"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn answered(line: &str) -> Option<String> {
        let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let error = crate::cli::Cli::try_parse_from(&args).err()?;
        answer(&error, args.into_iter())
    }

    #[test]
    fn flags_of_wrk_oha_and_hey_are_answered_with_the_right_one() {
        for (line, right) in [
            ("volley -t4 -c100 http://h/", "--cores"),
            ("volley -z 10s http://h/", "-d TIME"),
            ("volley -q 100 http://h/", "-r 100"),
            ("volley --http2 http://h/", "--http 2"),
            ("volley -X POST http://h/", "-m METHOD"),
            ("volley --no-tui http://h/", "--view none"),
            ("volley --data={} http://h/", "-b TEXT"),
        ] {
            let said = answered(line).unwrap_or_else(|| panic!("no answer to {line}"));
            assert!(said.contains(right), "{line}: {said}");
        }
        assert_eq!(answered("volley --quux http://h/"), None);
    }
}
