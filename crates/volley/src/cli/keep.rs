//! `--record` and `--report`: what is kept of a run for people to look at.

use std::path::PathBuf;

use clap::Args;

use super::values;

#[derive(Args, Clone, Default)]
pub struct KeepArgs {
    /// Write everything about the run (schema volley.run/1), for `volley report`
    #[arg(long, value_name = "FILE", value_parser = values::kept_file)]
    pub record: Option<PathBuf>,
    /// Write the report: one HTML file with tables and charts, which needs no network
    #[arg(long, value_name = "FILE.html", value_parser = values::kept_file)]
    pub report: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  volley run plan.yaml --record run.volley       keep everything about a run
  volley report run.volley                       run.html beside it
  volley report run.volley -o report.html";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ReportArgs {
    /// A file that `--record` has written
    #[arg(value_name = "RECORD")]
    pub record: PathBuf,
    /// The file to write; default: the record's name with .html; `-` is standard output
    #[arg(short = 'o', long, value_name = "FILE.html")]
    pub output: Option<PathBuf>,
}
