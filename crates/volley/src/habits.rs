//! What hands do that know another tool: flags that Volley writes differently, answered with its own.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// A flag as others write it, and what to say. Where a letter means different things to different tools, all are named.
const HABITS: [(&[&str], &str); 18] = [
    (&["-t", "--threads"], "wrk's threads are `--cores N` here; all cores are used without it"),
    (
        &["--latency"],
        "latencies are always shown, measured from the intended start of each request",
    ),
    (
        &["-s", "--script"],
        "a script is run by `volley run script.js` (k6's language; wrk's Lua is not spoken)",
    ),
    (
        &["--timeout"],
        "a request's time limit is `defaults: { timeout: 5s }` in a plan and `timeout: '5s'` in a script's params; \
         that of a whole test is the plan's `timeout: 10m`",
    ),
    (&["--port", "-p"], "where the server of `volley target` listens is `--listen 8080`"),
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

/// Words that are commands of other tools, or of people's expectations.
const COMMANDS: [(&[&str], &str); 12] = [
    (
        &["validate", "check", "lint", "inspect", "verify"],
        "`volley plan FILE` checks a plan and says what it would do",
    ),
    (
        &["start", "exec", "execute", "test", "load", "bench"],
        "`volley run FILE` runs a plan or a script",
    ),
    (&["init", "create", "generate"], "`volley new plan.yaml` writes a plan to start from"),
    (
        &["stop", "kill", "abort"],
        "`volley ctl stop` ends a test on this machine, `volley cancel JOB` a job of a cluster",
    ),
    (&["pause", "resume", "scale"], "`volley ctl pause|resume|scale` steers a running test"),
    (
        &["ls", "list", "ps"],
        "`volley jobs` lists the jobs of a cluster, `volley ctl status` what runs on this machine",
    ),
    (&["logs", "log"], "`volley results JOB --logs` shows what the attempts of a job have written"),
    (&["nodes", "workers", "cluster", "info"], "`volley status` shows the nodes of a cluster"),
    (
        &["report", "summary"],
        "`--summary FILE` of `volley run` writes a result, `volley results JOB` shows a job's again",
    ),
    (&["server", "mock", "serve"], "`volley target` is a server to shoot at"),
    (&["config", "env"], "`volley settings` shows which settings are in force"),
    (
        &["archive", "cloud", "login"],
        "there is none: `volley submit FILE` hands a plan or script to a cluster of your own",
    ),
];

/// What a command of another tool is called here.
pub fn command(word: &str) -> Option<&'static str> {
    let known = COMMANDS.iter().find(|(words, _)| words.contains(&word));
    known.map(|(_, answer)| *answer)
}

/// For a first word that was a command and is part of another one now.
pub fn moved(word: &str) -> Option<String> {
    let now = || format!("`volley {word}` is `volley debug {word}` now (a host: `http://{word}/`)");
    crate::cli::MOVED.contains(&word).then(now)
}

/// What to say to arguments that were refused. All slips are looked for, not only the first that was noticed.
pub fn answers(error: &clap::Error, args: &[String], command: &clap::Command) -> Vec<String> {
    let mut answers = Vec::new();
    let pairs = || args.iter().zip(args.iter().skip(1));
    // oha's; here the number would be a place to send requests to.
    if let Some((_, rate)) =
        pairs().find(|(flag, value)| *flag == "-q" && value.parse::<f64>().is_ok())
    {
        answers.push(format!("`-q` is `--quiet` here; requests a second are `-r {rate}`"));
    }
    // curl's.
    let is_body = |text: &str| text.starts_with(['{', '[', '@']) || text.contains('=');
    if let Some((_, body)) = pairs().find(|(flag, value)| *flag == "-d" && is_body(value)) {
        let body = report::format::clean(body);
        answers.push(format!(
            "`-d` is how long it takes here; a body is `-b '{body}'`, or `-b @FILE`"
        ));
    }
    match error.kind() {
        ErrorKind::UnknownArgument => {}
        ErrorKind::ArgumentConflict if command.get_name() == "volley" => {
            // A word that is no command was taken for a place to send requests to, and the next for a command.
            let first = args.first().map(String::as_str).unwrap_or_default();
            if let Some(answer) = no_command(first) {
                answers.push(answer);
            }
            return answers;
        }
        _ => return answers,
    }
    let known = |flag: &str| {
        command.get_arguments().any(|arg| {
            let long = arg.get_long().is_some_and(|long| flag.strip_prefix("--") == Some(long));
            let letter = flag.strip_prefix('-').and_then(|rest| rest.chars().next());
            long || (!flag.starts_with("--")
                && arg.get_short().is_some()
                && arg.get_short() == letter)
        })
    };
    for arg in args.iter().filter(|arg| arg.starts_with('-')) {
        let long = arg.split('=').next().unwrap_or_default();
        // `-z` of `-z10s`.
        let letter: String = arg.chars().take(2).collect();
        let flag = if arg.starts_with("--") { long } else { &letter };
        let answer =
            HABITS.iter().find(|(flags, _)| flags.contains(&flag)).filter(|_| !known(flag));
        let answer = answer.map(|(_, answer)| format!("`{flag}`: {answer}"));
        answers.extend(answer.filter(|answer| !answers.contains(answer)));
    }
    let unknown = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(unknown)) if !unknown.starts_with('-') => unknown.as_str(),
        _ => return answers,
    };
    let before = pairs().find(|(_, value)| *value == unknown).map(|(before, _)| before.as_str());
    let flag =
        pairs().find(|(_, name)| Some(name.as_str()) == before).map(|(flag, _)| flag.as_str());
    let shown = report::format::clean(unknown);
    match (command.get_name(), before, flag) {
        (_, Some(name), Some("-e" | "--env")) if !name.contains('=') => {
            answers.push(format!("`-e {name}` has no value; write `-e {name}={shown}`"));
        }
        ("scale", ..) if unknown.parse::<f64>().is_ok() => answers.push(format!(
            "say what is set: `--vus {shown}`, `--rate {shown}/s`, or `--by {shown}` for that many times as much"
        )),
        ("pause" | "resume" | "scale" | "stop" | "status", ..)
            if args.first().is_some_and(|first| first == "ctl") && looks_like_a_job(unknown) =>
        {
            let action = command.get_name();
            answers.push(format!("a job is named with --job: `volley ctl --job {shown} {action}`"));
        }
        ("run" | "plan" | "submit", ..) if looks_like_a_file(unknown) => answers.push(format!(
            "one file at a time: `{shown}` is a second one. Loads that belong together are workflows of one plan"
        )),
        _ => {}
    }
    answers
}

/// Jobs have hexadecimal ids, and may be named by their beginning.
fn looks_like_a_job(text: &str) -> bool {
    (2..=32).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn looks_like_a_file(text: &str) -> bool {
    let ending = text.rsplit_once('.').map(|(_, ending)| ending).unwrap_or_default();
    matches!(ending, "yaml" | "yml" | "toml" | "json" | "js" | "ts" | "mjs" | "cjs")
}

/// For a first word that is neither a command nor a place to send requests to.
pub fn no_command(word: &str) -> Option<String> {
    let is_word =
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if !is_word || word == "localhost" || word.starts_with('-') {
        return None;
    }
    let answer = command(word).unwrap_or("see `volley --help`");
    Some(format!("no command `{word}`; {answer} (a host: `http://{word}/`)"))
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;

    fn answered(line: &str) -> Option<String> {
        let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let error = crate::cli::Cli::try_parse_from(&args).err()?;
        let cli = crate::cli::Cli::command();
        let said = answers(&error, &args[1..], crate::config::called(&args[1..], &cli));
        (!said.is_empty()).then(|| said.join("\n"))
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
        let both = answered("volley -z 2s -c 4 -q 50 http://h/").unwrap();
        assert!(both.contains("-d TIME") && both.contains("-r 50"), "{both}");
        let both = answered("volley -X POST -d {\"a\":1} http://h/").unwrap();
        assert!(both.contains("-m METHOD") && both.contains("-b '{\"a\":1}'"), "{both}");
    }

    #[test]
    fn a_command_that_has_moved_is_answered_with_its_place() {
        for word in crate::cli::MOVED {
            let said = moved(word).unwrap();
            assert!(said.contains(&format!("`volley debug {word}` now")), "{said}");
        }
        assert_eq!(moved("manager"), None);
    }

    #[test]
    fn a_slip_is_answered_where_it_was_made_and_not_where_it_was_noticed() {
        for (line, right) in [
            ("volley run plan.yaml -e BASE http://h/", "write `-e BASE=http://h/`"),
            ("volley ctl scale 20", "`--vus 20`, `--rate 20/s`"),
            ("volley ctl pause 827b", "`volley ctl --job 827b pause`"),
            ("volley run plan.yaml --timeout 5s", "`defaults: { timeout: 5s }`"),
            ("volley target --port 8080", "`--listen 8080`"),
            ("volley run a.yaml b.yaml", "one file at a time: `b.yaml`"),
            ("volley validate plan.yaml", "`volley plan FILE` checks a plan"),
            ("volley start plan.yaml", "`volley run FILE`"),
            ("volley frobnicate plan.yaml", "no command `frobnicate`; see `volley --help`"),
        ] {
            let said = answered(line).unwrap_or_else(|| panic!("no answer to {line}"));
            assert!(said.contains(right), "{line}: {said}");
        }
        // `-s` is a stage of `run`, and wrk's script elsewhere.
        assert_eq!(answered("volley run plan.js -s 1s:5 --quux"), None);
    }
}
