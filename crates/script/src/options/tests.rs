//! Tables of options and what becomes of them, checked against k6 v1.1.0 when they were written.

mod describe;
mod levels;
mod loads;
mod refused;
mod segments;
mod shown;
mod values;

use serde_json::Value;

use super::{Options, OptionsError, Place, Resolved, Warning, resolve};

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// A script's options, as far as they are read.
fn read(text: &str) -> Result<(Options, Vec<Warning>), OptionsError> {
    Options::from_json(&json(text), Place::Script)
}

/// A script's options, all the way.
fn run(text: &str) -> Result<(Resolved, Vec<Warning>), OptionsError> {
    let (options, mut warnings) = read(text)?;
    let (resolved, more) = resolve(Options::merge([options]))?;
    warnings.extend(more);
    Ok((resolved, warnings))
}

fn accepted(text: &str) -> Resolved {
    run(text).unwrap_or_else(|error| panic!("{text}: {error}")).0
}

/// All problems of options that must not be accepted, one per line.
fn refused(text: &str) -> String {
    match run(text) {
        Ok((resolved, _)) => panic!("{text} was accepted: {resolved:?}"),
        Err(error) => error.to_string(),
    }
}

fn warnings(text: &str) -> Vec<String> {
    let (_, warnings) = run(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    warnings.iter().map(Warning::to_string).collect()
}
