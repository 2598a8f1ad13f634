//! What a job is made of, as one blob: what workers run, and what managers have to know of it.
//!
//! A manager never runs what a user wrote (R1). The client has read the plan, or run the script's
//! init code, and says what follows from it: the manifest, the names behind the numbers of the
//! statistics, the thresholds. A worker reads the plan or the script itself. If the two disagree,
//! their schemas have different fingerprints, and frames are refused.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use control::owner::{Manifest, Policy};
use engine::attempt::{Content, LoadError, PackedPlan, PackedScript, layout_of};
use plan::{Format, Plan, Threshold};
use script::source::LoadedFile;
use serde::{Deserialize, Serialize};
use stats::wire::{Schema, WireError, decode_schema, encode_schema};

/// The first bytes, so that a foreign blob is not taken for one.
const MAGIC: &[u8; 4] = b"VBDL";
const VERSION: u8 = 2;
/// The most that a plan may have with all its files; the ledger keeps no larger blob.
pub const BUNDLE_BYTES_MAX: usize = 256 << 20;
/// The most of it that managers have to know: everything before the plan, the scripts and the
/// files.
pub const HEAD_BYTES_MAX: usize = 8 << 20;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Bundle {
    /// The plan's or the script's, for people.
    pub name: String,
    pub manifest: Manifest,
    schema: Vec<u8>,
    /// Of a plan; a script's are part of its schema.
    pub thresholds: Vec<Threshold>,
    /// A script that is to fail when it throws.
    pub strict: bool,
    content: Payload,
}

/// What managers know of a job: a bundle without what only workers read. It stands at the beginning
/// of the blob, so that no manager has to hold a plan with all its files in memory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BundleHead {
    pub name: String,
    pub manifest: Manifest,
    schema: Vec<u8>,
    pub thresholds: Vec<Threshold>,
    pub strict: bool,
    content: u32,
}

/// The number of [`Payload::Script`], as it is written.
const SCRIPT: u32 = 1;

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Payload {
    Plan {
        name: String,
        text: String,
        format: u8,
        target: Option<String>,
        env: BTreeMap<String, String>,
        files: Vec<(String, Vec<u8>)>,
    },
    Script {
        name: String,
        entry: String,
        files: Vec<(PathBuf, Vec<u8>)>,
        env: BTreeMap<String, String>,
        options: String,
        sections: bool,
        no_thresholds: bool,
        strict: bool,
    },
}

/// What is to be run.
pub enum Packed {
    Plan(PackedPlan),
    Script(PackedScript),
}

/// Why a blob is no bundle that this program can run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BundleError {
    NotABundle,
    TooNew { version: u8 },
    Malformed(String),
    TooLarge { bytes: usize },
}

impl fmt::Display for BundleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotABundle => f.write_str("this is not a job"),
            Self::TooNew { version } => write!(
                f,
                "the job was packed by a newer Volley (format {version}; this one reads {VERSION}): bring the \
                 managers and workers up to the client's version"
            ),
            Self::Malformed(why) => write!(f, "the job is damaged: {why}"),
            Self::TooLarge { bytes } => write!(
                f,
                "the plan has {bytes} bytes with its files, and at most {BUNDLE_BYTES_MAX} can be submitted"
            ),
        }
    }
}

impl std::error::Error for BundleError {}

/// What follows the magic bytes and the version.
fn content(bytes: &[u8]) -> Result<&[u8], BundleError> {
    let rest = bytes.strip_prefix(MAGIC).ok_or(BundleError::NotABundle)?;
    match rest.split_first() {
        Some((&VERSION, rest)) => Ok(rest),
        Some((&version, _)) if version > VERSION => Err(BundleError::TooNew { version }),
        _ => Err(BundleError::Malformed("it has no version".to_owned())),
    }
}

impl BundleHead {
    /// From the first [`HEAD_BYTES_MAX`] bytes of a bundle, or all of it.
    ///
    /// # Errors
    /// If it is something else, of a later version, or damaged.
    pub fn decode(first: &[u8]) -> Result<Self, BundleError> {
        let bad = |why: String| BundleError::Malformed(why);
        let (head, _): (Self, _) = postcard::take_from_bytes(content(first)?)
            .map_err(|error| bad(format!("what managers need of it cannot be read: {error}")))?;
        head.schema().map_err(|error| bad(error.to_string()))?;
        head.manifest.check().map_err(bad)?;
        Ok(head)
    }

    /// What the numbers in the job's statistics mean.
    ///
    /// # Errors
    /// If it is damaged.
    pub fn schema(&self) -> Result<Schema, WireError> {
        decode_schema(&self.schema)
    }

    #[must_use]
    pub fn is_script(&self) -> bool {
        self.content == SCRIPT
    }
}

const FORMATS: [Format; 3] = [Format::Yaml, Format::Toml, Format::Json];

impl Bundle {
    /// # Errors
    /// If the plan cannot be compiled, or a file of it cannot be read.
    pub fn of_plan(plan: &Plan, packed: PackedPlan, policy: Policy) -> Result<Self, LoadError> {
        let schema = encode_schema(&Schema::new(layout_of(plan)?, None));
        let files = packed.files.into_iter().map(|(name, content)| match content {
            Content::Bytes(bytes) => Ok((name, bytes.to_vec())),
            Content::Stored(path) => match std::fs::read(&path) {
                Ok(bytes) => Ok((name, bytes)),
                Err(error) => {
                    Err(LoadError::new(format!("cannot read {}: {error}", path.display())))
                }
            },
        });
        let format = FORMATS.iter().position(|known| *known == packed.format).unwrap_or_default();
        Ok(Self {
            name: plan.name.clone(),
            manifest: Manifest::of(plan, policy),
            schema,
            thresholds: plan.thresholds.clone(),
            strict: false,
            content: Payload::Plan {
                name: packed.name,
                text: packed.text,
                format: u8::try_from(format).unwrap_or_default(),
                target: packed.target,
                env: packed.env,
                files: files.collect::<Result<_, _>>()?,
            },
        })
    }

    /// Of a script that was opened here: its scenarios and metrics have the same numbers
    /// everywhere.
    ///
    /// # Errors
    /// If it cannot be compiled.
    pub fn of_script(
        run: &std::sync::Arc<engine::script::ScriptRun>,
        packed: PackedScript,
        policy: Policy,
    ) -> Result<Self, LoadError> {
        let layout = engine::attempt::layout_of_script(run)?;
        let schema = Schema::new(layout, Some(run.layout.clone()));
        let mut manifest = Manifest::of(&run.plan, policy);
        (manifest.setup, manifest.teardown) = (run.has_setup, run.has_teardown);
        let files = packed.files.into_iter().map(|file| (file.path, file.bytes.to_vec())).collect();
        Ok(Self {
            name: run.plan.name.clone(),
            manifest,
            schema: encode_schema(&schema),
            thresholds: Vec::new(),
            strict: packed.strict,
            content: Payload::Script {
                name: packed.name,
                entry: packed.entry,
                files,
                env: packed.env,
                options: packed.options,
                sections: packed.sections,
                no_thresholds: packed.no_thresholds,
                strict: packed.strict,
            },
        })
    }

    /// # Errors
    /// If it is larger than the managers keep.
    pub fn encode(&self) -> Result<Vec<u8>, BundleError> {
        let mut start = MAGIC.to_vec();
        start.push(VERSION);
        let bytes = postcard::to_extend(self, start)
            .map_err(|error| BundleError::Malformed(error.to_string()))?;
        match bytes.len() {
            bytes if bytes > BUNDLE_BYTES_MAX => Err(BundleError::TooLarge { bytes }),
            // Found out here, by whoever packs it, rather than by a manager.
            _ => BundleHead::decode(&bytes[..bytes.len().min(HEAD_BYTES_MAX)]).map(|_| bytes),
        }
    }

    /// # Errors
    /// If it is something else, of a later version, or damaged.
    pub fn decode(bytes: &[u8]) -> Result<Self, BundleError> {
        if bytes.len() > BUNDLE_BYTES_MAX {
            return Err(BundleError::TooLarge { bytes: bytes.len() });
        }
        let bad = |why: String| BundleError::Malformed(why);
        let rest = content(bytes)?;
        let (bundle, left): (Self, _) =
            postcard::take_from_bytes(rest).map_err(|error| bad(error.to_string()))?;
        if !left.is_empty() {
            return Err(bad(format!("{} bytes too many", left.len())));
        }
        if let Payload::Plan { format, .. } = &bundle.content
            && usize::from(*format) >= FORMATS.len()
        {
            return Err(bad("the plan is written in no language that is known".to_owned()));
        }
        bundle.schema().map_err(|error| bad(error.to_string()))?;
        bundle.manifest.check().map_err(bad)?;
        Ok(bundle)
    }

    /// What the numbers in the job's statistics mean.
    ///
    /// # Errors
    /// If it is damaged.
    pub fn schema(&self) -> Result<Schema, WireError> {
        decode_schema(&self.schema)
    }

    /// What a worker loads.
    #[must_use]
    pub fn into_packed(self) -> Packed {
        match self.content {
            Payload::Plan { name, text, format, target, env, files } => Packed::Plan(PackedPlan {
                name,
                text,
                format: FORMATS.get(usize::from(format)).copied().unwrap_or(Format::Yaml),
                target,
                env,
                files: files
                    .into_iter()
                    .map(|(name, bytes)| (name, Content::Bytes(bytes.into())))
                    .collect(),
            }),
            Payload::Script {
                name,
                entry,
                files,
                env,
                options,
                sections,
                no_thresholds,
                strict,
            } => Packed::Script(PackedScript {
                name,
                entry,
                files: files
                    .into_iter()
                    .map(|(path, bytes)| LoadedFile { path, bytes: bytes.into() })
                    .collect(),
                env,
                options,
                sections,
                no_thresholds,
                strict,
            }),
        }
    }
}
