//! What is said to arguments of other tools.

use clap::Parser;

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
fn a_flag_of_another_command_is_answered_with_that_command() {
    for (line, right) in [
        ("volley plan plan.yaml --debug", "`--debug`: a flag of `volley run`"),
        ("volley ping http://h/ --summary s.json", "a flag of `volley run`"),
        ("volley run plan.yaml --patience 5s", "a flag of `volley submit`"),
    ] {
        let said = answered(line).unwrap_or_else(|| panic!("no answer to {line}"));
        assert!(said.contains(right), "{line}: {said}");
    }
    let body = answered("volley ping http://h/ -d {\"a\":1}").unwrap();
    assert!(body.contains("a body is `-b '") && !body.contains("how long"), "{body}");
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
        ("volley run -u 20 -r 10 -t 1s ok.yaml", "Locust's run time is `-d 1s`"),
        ("volley -u amara:secret -n 3 http://h/", "credentials go into the URL"),
        ("volley run --headless -H http://h ok.yaml", "`--target URL`"),
        ("volley -n 3 http://h/ http://h/search", "one URL at a time"),
        ("volley http://h/ http://h/search", "one URL at a time"),
        ("volley attack -rate=50 -duration=1s", "write two dashes, `--rate 50`"),
        ("volley attack -rate=50 -duration=1s", "no command `attack`"),
        ("volley run ok.yaml http://h/", "`--target http://h/`"),
        ("volley ping -c 4 http://h/", "`volley -n 4 -c 1 URL` makes 4"),
        ("volley run ok.yaml --dry-run", "`volley plan FILE` checks"),
        ("volley run ok.yaml -n 10", "iterations are `-i N`"),
        ("volley completions", "bash, zsh, fish"),
        ("volley -c 1,000 -d 1s http://h/", "write the number out: 1000"),
        ("volley -n 10k http://h/", "write the number out: 10000"),
        ("volley ctl stop 9399", "`volley ctl --run 9399 stop`"),
        ("volley frobnicate plan.yaml", "no command `frobnicate`; see `volley --help`"),
    ] {
        let said = answered(line).unwrap_or_else(|| panic!("no answer to {line}"));
        assert!(said.contains(right), "{line}: {said}");
    }
    let said = answered("volley -u amara:secret http://h/").unwrap();
    assert!(!said.contains("secret"), "{said}");
    // `-s` is a stage of `run`, and wrk's script elsewhere.
    assert_eq!(answered("volley run plan.js -s 1s:5 --quux"), None);
}
