use super::*;
use clap::CommandFactory;

#[derive(clap::Parser)]
#[command(name = "volley")]
struct Cli {
    #[command(subcommand)]
    command: Option<Sub>,
}

#[derive(clap::Subcommand)]
enum Sub {
    Worker {
        #[arg(long, env = "VOLLEY_CORES")]
        cores: Option<u32>,
        #[arg(long, env = "VOLLEY_JOIN", value_delimiter = ',')]
        join: Vec<String>,
        #[arg(long, env = "VOLLEY_QUIET")]
        quiet: bool,
    },
}

fn read_text(text: &str, set: &[&str]) -> Result<Config, ConfigError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("volley.toml");
    std::fs::write(&path, text).unwrap();
    let env = |name: &str| set.contains(&name).then(|| "set".to_owned());
    read(&path, &Cli::command(), env)
}

#[test]
fn a_value_stands_under_its_command_or_at_the_top() {
    let text = "cores = 2\n[worker]\njoin = [\"a:1\", \"b:2\"]\nquiet = true\n";
    let config = read_text(text, &["VOLLEY_QUIET"]).unwrap();
    let found: Vec<_> = config
        .entries
        .iter()
        .map(|e| (e.key.as_str(), e.value.as_str(), e.line, e.overridden))
        .collect();
    assert_eq!(
        found,
        [
            ("cores", "2", 1, false),
            ("worker.join", "a:1,b:2", 3, false),
            ("worker.quiet", "true", 4, true),
        ]
    );
}

#[test]
fn all_mistakes_are_named_with_line_and_remedy() {
    let text = "corez = 2\n[wroker]\ncores = 1\n[worker]\nquiet = 3\njoin = [1]\n";
    let error = read_text(text, &[]).unwrap_err().to_string();
    let lines: Vec<&str> =
        error.lines().map(|line| line.rsplit("volley.toml:").next().unwrap()).collect();
    assert_eq!(
        lines,
        [
            "1: no key `corez`; did you mean `cores`?",
            "2: no section `wroker`; did you mean `worker`?",
            "5: `worker.quiet` is true or false",
            "6: `worker.join` is a list of texts",
        ]
    );
}

#[test]
fn a_section_counts_for_its_own_command_only() {
    let config = read_text("quiet = true\n[worker]\ncores = 2\n", &[]).unwrap();
    let of = |invoked: &str| {
        let entries = config.entries.iter().filter(|entry| entry.is_for(invoked));
        entries.map(|entry| entry.key.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(of("worker"), ["quiet", "worker.cores"]);
    assert_eq!(of("run"), ["quiet"]);
    let args = ["volley", "--settings", "f", "worker", "--cores", "3"].map(str::to_owned);
    assert_eq!(invoked(args.into_iter(), &Cli::command()), "worker");
}

#[test]
fn broken_files_are_refused_with_their_line() {
    let error = read_text("cores = \n", &[]).unwrap_err().to_string();
    assert!(error.contains("volley.toml:1: not valid TOML"), "{error}");
}

#[test]
fn a_named_file_comes_before_the_usual_places() {
    let env = |name: &str| (name == "VOLLEY_SETTINGS").then(|| "/some/where.toml".to_owned());
    assert_eq!(find(Some("named.toml".into()), env), Some("named.toml".into()));
    assert_eq!(find(None, env), Some("/some/where.toml".into()));
}
