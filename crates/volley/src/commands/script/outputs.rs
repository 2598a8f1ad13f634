//! What a script's run writes: samples, and the files of `handleSummary`.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use report::k6::{TimeUnit, TrendStat};
use report::outputs::{SeriesFileOptions, SeriesWriter, Target};
use script::log::Level;
use script::options::Options;
use stats::series::SeriesLayout;

use super::log::Log;
use crate::cli::{OutputArgs, ScriptArgs};
use crate::failure::Failure;
use crate::{k6_web, print};

/// Opens the files that want every sample; `None`: there are none.
pub fn start(
    targets: &[Target],
    layout: &Arc<SeriesLayout>,
    options: &Options,
) -> Result<Option<SeriesWriter>, Vec<String>> {
    let mut how = SeriesFileOptions::default();
    if let Some(tags) = &options.system_tags {
        how.system_tags.clone_from(tags);
    }
    if let Ok(time) = std::env::var("K6_CSV_TIME_FORMAT") {
        how.csv_time =
            time.parse().map_err(|error| vec![format!("K6_CSV_TIME_FORMAT: {error}")])?;
    }
    SeriesWriter::start(targets, layout.clone(), &how)
}

/// `K6_OUT` stands for `--out` where there is none.
pub fn with_environment(output: &OutputArgs) -> Result<OutputArgs, Failure> {
    let mut output = output.clone();
    if output.output.is_empty()
        && let Ok(wanted) = std::env::var("K6_OUT")
        && !wanted.is_empty()
    {
        let files = wanted.split(',').filter(|output| !k6_web::is_dashboard(output));
        let targets = files.map(str::parse::<Target>).collect::<Result<_, _>>();
        output.output = targets.map_err(|error| Failure::invalid(error).at("K6_OUT"))?;
    }
    let var = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    k6_web::from_environment(&mut output, &var);
    Ok(output)
}

/// What is wrong with the file of `--summary-export`, if it cannot be written.
pub fn check_export(args: &ScriptArgs) -> Option<Failure> {
    let path = args.summary_export.as_ref()?;
    let error = report::outputs::check_writable(path).err()?;
    Some(Failure::invalid(error).at(format!("--summary-export {}", path.display())))
}

pub fn trend_stats(options: &Options) -> Vec<TrendStat> {
    match &options.summary_trend_stats {
        Some(names) => names.iter().filter_map(|name| name.parse().ok()).collect(),
        None => TrendStat::defaults(),
    }
}

pub fn time_unit(options: &Options) -> Option<TimeUnit> {
    options.summary_time_unit.as_deref().and_then(|unit| unit.parse().ok())
}

/// Writes what `handleSummary` returned.
pub fn write_files(files: &[(String, Vec<u8>)], log: &Log) {
    for (name, content) in files {
        let written = match name.as_str() {
            "stdout" => {
                print::out(&String::from_utf8_lossy(content));
                Ok(())
            }
            "stderr" => std::io::stderr().write_all(content),
            path => std::fs::write(Path::new(path), content),
        };
        if let Err(error) = written {
            let help = match error.kind() {
                std::io::ErrorKind::NotFound => "; is its folder there? It is not made",
                _ => "",
            };
            log.say(Level::Error, format!("handleSummary: {name}: {error}{help}"));
        }
    }
}
