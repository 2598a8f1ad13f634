//! What hands do that know another tool: flags that Volley writes differently, answered with its
//! own.

#[cfg(test)]
mod tests;

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// A flag as others write it, and what to say. Where a letter means different things to different
/// tools, all are named.
const HABITS: [(&[&str], &str); 24] = [
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
        &["--job"],
        "a job is named without a flag: `volley watch JOB`; `volley ctl --job JOB` has one",
    ),
    (
        &["--insecure", "--no-verify"],
        "any certificate is accepted with `-k` (`volley URL`), or `tls: { insecure: true }` in a plan",
    ),
    (
        &["--headless", "--autostart"],
        "there is a page only with `--web`, and a run never waits for it (Locust's does): leave it out",
    ),
    (
        &["-H", "--host"],
        "Locust's host is `--target URL` of `volley run`; headers of a plan are `headers: { NAME: VALUE }` in it",
    ),
    (
        &["--dry-run", "--check", "--syntax-check", "--validate"],
        "`volley plan FILE` checks a plan and says what it would do; `volley run FILE --debug` makes one iteration",
    ),
    (
        &["-n", "--requests", "--count"],
        "iterations are `-i N` of `volley run FILE`, requests of a short test `volley -n N URL`",
    ),
    (
        &["--run-time", "--spawn-rate"],
        "how long is `-d TIME`, and users come at once; a ramp is `--stage 10s:20` (10 s, to 20 users)",
    ),
];

/// Words that are commands of other tools, or of people's expectations.
const COMMANDS: [(&[&str], &str); 13] = [
    (
        &["validate", "check", "lint", "inspect", "verify"],
        "`volley plan FILE` checks a plan and says what it would do",
    ),
    (
        &["start", "exec", "execute", "test", "load", "bench"],
        "`volley run FILE` runs a plan or a script",
    ),
    (&["attack"], "vegeta's attack is `volley -r 50 -d 1s URL`, at an even pace"),
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
        &["summary"],
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

/// What to say to arguments that were refused. All slips are looked for, not only the first that
/// was noticed.
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
        let also = if knows(command, "-d") { "`-d` is how long it takes here; " } else { "" };
        answers.push(format!("{also}a body is `-b '{body}'`, or `-b @FILE`"));
    }
    let first = args.first().map(String::as_str).unwrap_or_default();
    if command.get_name() == "volley" {
        if let [one, other, ..] = urls(args).as_slice() {
            let (one, other) = (plan::mask_broken_url(one), plan::mask_broken_url(other));
            answers.push(format!(
                "one URL at a time, and here stand {one} and {other}; several are steps of a plan \
                 (`volley new plan.yaml`)"
            ));
            return answers;
        }
        // A word that is no command was taken for a place to send requests to, and the next for a
        // command.
        let taken = error.kind() == ErrorKind::ArgumentConflict || command_of_others(first);
        answers.extend(no_command(first).filter(|_| taken));
    }
    answers.extend(args.iter().filter_map(|arg| one_dash(arg, command)));
    match error.kind() {
        ErrorKind::UnknownArgument => {}
        ErrorKind::MissingRequiredArgument if command.get_name() == "completions" => {
            answers.push("name a shell: bash, zsh, fish, elvish or powershell".to_owned());
            return answers;
        }
        ErrorKind::ValueValidation if answers.is_empty() => {
            answers.extend(written_out(error));
            return answers;
        }
        _ => return answers,
    }
    answers.extend(foreign_flags(args, command));
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
            if first == "ctl" && unknown.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            let action = command.get_name();
            answers.push(format!(
                "a run on this machine is named with --run: `volley ctl --run {shown} {action}`; a job of a cluster \
                 with --job"
            ));
        }
        ("pause" | "resume" | "scale" | "stop" | "status", ..)
            if args.first().is_some_and(|first| first == "ctl") && looks_like_a_job(unknown) =>
        {
            let action = command.get_name();
            answers.push(format!("a job is named with --job: `volley ctl --job {shown} {action}`"));
        }
        ("run" | "submit", ..) if is_url(unknown) => {
            let url = plan::mask_broken_url(unknown);
            answers.push(format!("the target of a plan is `--target {url}`"));
        }
        ("run" | "plan" | "submit", ..) if looks_like_a_file(unknown) => answers.push(format!(
            "one file at a time: `{shown}` is a second one. Loads that belong together are workflows of one plan"
        )),
        _ => {}
    }
    answers
}

fn command_of_others(word: &str) -> bool {
    command(word).is_some()
}

fn is_url(text: &str) -> bool {
    text.starts_with("http://") || text.starts_with("https://")
}

/// What is given to be loaded, and not as the value of a flag.
fn urls(args: &[String]) -> Vec<&str> {
    let before = std::iter::once("").chain(args.iter().map(String::as_str));
    let alone = args.iter().zip(before).filter(|(_, before)| !before.starts_with('-'));
    alone.map(|(arg, _)| arg.as_str()).filter(|arg| is_url(arg)).collect()
}

/// Whether a command has a flag, long or short.
fn knows(command: &clap::Command, flag: &str) -> bool {
    command.get_arguments().any(|arg| {
        let long = arg.get_long().is_some_and(|long| flag.strip_prefix("--") == Some(long));
        let letter = flag.strip_prefix('-').and_then(|rest| rest.chars().next());
        long || (!flag.starts_with("--") && arg.get_short().is_some() && arg.get_short() == letter)
    })
}

/// `-rate=50`: Go's flags have one dash, and here the letters are flags of their own.
fn one_dash(arg: &str, command: &clap::Command) -> Option<String> {
    let rest = arg.strip_prefix('-').filter(|rest| !rest.starts_with('-'))?;
    let (name, value) = rest.split_once('=').unwrap_or((rest, ""));
    let known = name.len() > 2 && knows(command, &format!("--{name}"));
    let value = report::format::clean(value);
    let right = format!("--{name} {value}");
    known.then(|| format!("`-{name}`: write two dashes, `{}`", right.trim_end()))
}

/// `-c 1,000` and `-n 10k`: numbers are written out.
fn written_out(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(value)) = error.get(ContextKind::InvalidValue) else {
        return None;
    };
    let plain: String = value.chars().filter(|c| !matches!(c, ',' | '_' | '\'' | ' ')).collect();
    let lower = plain.to_ascii_lowercase();
    let (digits, zeros) = match (lower.strip_suffix('k'), lower.strip_suffix('m')) {
        (Some(digits), _) => (digits, "000"),
        (None, Some(digits)) => (digits, "000000"),
        (None, None) => (lower.as_str(), ""),
    };
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let rendered = error.to_string();
    let is_count = rendered.contains("invalid digit");
    (is_number && is_count && digits.len() + zeros.len() <= 19)
        .then(|| format!("write the number out: {digits}{zeros}"))
}

/// Flags of other tools among the arguments, each with what it is here.
fn foreign_flags(args: &[String], command: &clap::Command) -> Vec<String> {
    let mut answers: Vec<String> = Vec::new();
    for (number, arg) in args.iter().enumerate().filter(|(_, arg)| arg.starts_with('-')) {
        let long = arg.split('=').next().unwrap_or_default();
        // `-z` of `-z10s`.
        let letter: String = arg.chars().take(2).collect();
        let flag = if arg.starts_with("--") { long } else { &letter };
        if knows(command, flag) {
            continue;
        }
        let own = arg.get(flag.len()..).unwrap_or_default().trim_start_matches('=');
        let next = args.get(number + 1).map(String::as_str).unwrap_or_default();
        let value = if own.is_empty() { next } else { own };
        let answer = by_value(flag, value, command.get_name()).or_else(|| {
            let known = HABITS.iter().find(|(flags, _)| flags.contains(&flag));
            known.map(|(_, answer)| (*answer).to_owned())
        });
        let answer = answer.or_else(|| of_another_command(flag, command.get_name()));
        let answer = answer.map(|answer| format!("`{flag}`: {answer}"));
        answers.extend(answer.filter(|answer| !answers.contains(answer)));
    }
    answers
}

/// A flag that another command has.
fn of_another_command(flag: &str, called: &str) -> Option<String> {
    if !flag.starts_with("--") {
        return None;
    }
    let all = crate::cli::Cli::command();
    let own = all.get_subcommands().filter(|one| one.get_name() != called && !one.is_hide_set());
    let mut names: Vec<&str> =
        own.filter(|one| knows(one, flag)).map(clap::Command::get_name).collect();
    // The command that people mean most often comes first.
    names.sort_by_key(|name| *name != "run");
    let shown: Vec<String> = names.iter().take(3).map(|name| format!("`volley {name}`")).collect();
    let called = if called == "volley" { "volley URL" } else { called };
    (!shown.is_empty())
        .then(|| format!("a flag of {}; `{called}` has none of that name", shown.join(", ")))
}

/// Letters that mean different things to different tools: the value says which was meant.
fn by_value(flag: &str, value: &str, command: &str) -> Option<String> {
    let value = report::format::clean(value);
    Some(match flag {
        "-t" if plan::units::duration(&value).is_ok() => {
            format!(
                "Locust's run time is `-d {value}` here; `-r` are iterations a second, and not a spawn rate"
            )
        }
        // Nothing of what may be a password is repeated.
        "-u" if value.contains(':') => {
            "credentials go into the URL, `http://user:password@host/`, or into a header: \
             `-H 'Authorization: ...'`"
                .to_owned()
        }
        "-c" | "-n" | "--count" if command == "ping" => {
            format!("`volley ping` makes one request; `volley -n {value} -c 1 URL` makes {value}")
        }
        _ => return None,
    })
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
