//! From a plan's file, or a script that is ready to run, to the bundle that is submitted.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use control::owner::Policy;
use engine::attempt::{LoadError, PackedPlan};
use engine::script::Prepared;
use plan::{Plan, Problems, ReadOptions};
use script::log::Logger;

use crate::bundle::Bundle;

/// Why there is nothing to submit.
#[derive(Debug)]
pub enum PackError {
    /// The plan is wrong.
    Plan(Problems),
    /// The plan is right and cannot be compiled, or a file of it cannot be read.
    Load(LoadError),
}

impl fmt::Display for PackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PackError::Plan(problems) => problems.fmt(f),
            PackError::Load(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for PackError {}

/// Reads a plan with everything that belongs to it.
///
/// # Errors
/// If the plan is wrong, or a file that it names cannot be read.
pub fn pack_plan(
    path: &Path,
    options: &ReadOptions<'_>,
    policy: Policy,
) -> Result<(Plan, Bundle), PackError> {
    let (plan, packed) = PackedPlan::pack(path, options).map_err(PackError::Plan)?;
    let bundle = Bundle::of_plan(&plan, packed, policy).map_err(PackError::Load)?;
    Ok((plan, bundle))
}

/// Packs a script whose init code has run here, so that all its files are known.
///
/// # Errors
/// If it cannot be opened again from what is packed.
pub fn pack_script(prepared: &Prepared, policy: Policy) -> Result<Bundle, LoadError> {
    let packed = prepared.packed();
    // Opened as the workers open it, so that all agree on the numbers. What its init code prints
    // has been seen.
    let silent: Logger = Arc::new(|_| {});
    let opened = packed.open(&silent, engine::script::memory_for_users())?;
    Bundle::of_script(&Arc::new(opened), packed, policy)
}
