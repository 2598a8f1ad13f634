//! What the user asked for: `json=FILE`, parsed and tried out before the run.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use flate2::Compression;
use flate2::write::GzEncoder;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Json,
    Csv,
    Junit,
    Hdr,
}

impl Format {
    pub const ALL: [Format; 4] = [Format::Json, Format::Csv, Format::Junit, Format::Hdr];

    pub fn name(self) -> &'static str {
        match self {
            Format::Json => "json",
            Format::Csv => "csv",
            Format::Junit => "junit",
            Format::Hdr => "hdr",
        }
    }

    /// Needs every sample of the run.
    pub fn is_streamed(self) -> bool {
        matches!(self, Format::Json | Format::Csv)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub format: Format,
    /// `-`: standard output.
    pub path: PathBuf,
}

impl Target {
    pub fn is_stdout(&self) -> bool {
        self.path.as_os_str() == "-"
    }

    /// Emptied; what is written to a name that ends in `.gz` is compressed.
    pub(super) fn open(&self) -> io::Result<Box<dyn Write + Send>> {
        if self.is_stdout() {
            return Ok(Box::new(io::stdout()));
        }
        let file = File::create(&self.path)?;
        if self.path.extension().is_some_and(|extension| extension == "gz") {
            return Ok(Box::new(GzEncoder::new(file, Compression::default())));
        }
        Ok(Box::new(file))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.format.name(), self.path.display())
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Target, String> {
        let known = Format::ALL.map(Format::name).join(", ");
        let Some((name, path)) = text.split_once('=') else {
            return Err(format!("`{text}` is not FORMAT=FILE; formats are {known}"));
        };
        let Some(format) = Format::ALL.into_iter().find(|format| format.name() == name) else {
            return Err(format!("`{name}` is not an output format; choose one of {known}"));
        };
        if path.is_empty() {
            return Err(format!("`{text}` names no file; `{name}=-` is standard output"));
        }
        Ok(Target { format, path: path.into() })
    }
}

/// Tries to open every file, without emptying one that exists: an earlier result should survive a
/// run that never starts. All problems are reported, not only the first.
pub fn check_targets(targets: &[Target]) -> Result<(), Vec<String>> {
    let mut problems = Vec::new();
    for (number, target) in targets.iter().enumerate() {
        if let Some(other) = targets[..number].iter().find(|other| other.path == target.path) {
            problems.push(format!(
                "`--output {other}` and `--output {target}` are the same file; give one of them another name"
            ));
        } else if !target.is_stdout() {
            let opened = check_writable(&target.path);
            problems.extend(opened.err().map(|error| format!("output {target}: {error}")));
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

/// Whether a file can be written. Nothing is left behind: a file that is there stays as it is, and
/// one that is not there is not there afterwards, so that nobody takes an empty file for a result.
pub fn check_writable(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        let inside = path.join("result.json");
        let inside = inside.display();
        return Err(io::Error::other(format!("a folder; name a file in it, such as {inside}")));
    }
    match OpenOptions::new().append(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        other => return other.map(drop),
    }
    if let Some(folder) = path.parent().filter(|it| !it.as_os_str().is_empty() && !it.exists()) {
        let folder = folder.display();
        return Err(io::Error::new(
            io::ErrorKind::NotFound,
            format!("there is no folder {folder}; `mkdir -p {folder}` makes it"),
        ));
    }
    OpenOptions::new().create_new(true).append(true).open(path)?;
    std::fs::remove_file(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_whether_a_file_can_be_written_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("summary.json");
        check_writable(&path).unwrap();
        assert!(!path.exists(), "an empty file would be taken for a result");
        std::fs::write(&path, "old").unwrap();
        check_writable(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
        assert!(check_writable(&folder.path().join("missing/summary.json")).is_err());
    }

    #[test]
    fn a_target_is_a_known_format_and_a_file() {
        let target: Target = "csv=out/a=b.csv".parse().unwrap();
        assert_eq!(target, Target { format: Format::Csv, path: "out/a=b.csv".into() });
        assert_eq!(target.to_string(), "csv=out/a=b.csv");
        assert!("json=-".parse::<Target>().unwrap().is_stdout());
        for (wrong, word) in [("json", "FORMAT=FILE"), ("xml=a", "json, csv"), ("hdr=", "no file")]
        {
            let error = wrong.parse::<Target>().unwrap_err();
            assert!(error.contains(word), "{wrong}: {error}");
        }
    }

    #[test]
    fn a_name_that_ends_in_gz_is_compressed() {
        let folder = tempfile::tempdir().unwrap();
        let target = Target { format: Format::Json, path: folder.path().join("a.json.gz") };
        let mut out = target.open().unwrap();
        out.write_all(b"one\n").unwrap();
        out.flush().unwrap();
        out.write_all(b"two\n").unwrap();
        drop(out);
        let file = File::open(&target.path).unwrap();
        let text = io::read_to_string(flate2::read::GzDecoder::new(file)).unwrap();
        assert_eq!(text, "one\ntwo\n");
    }

    #[test]
    fn files_that_cannot_be_created_are_all_reported_and_existing_ones_kept() {
        let folder = tempfile::tempdir().unwrap();
        let kept = folder.path().join("kept.json");
        std::fs::write(&kept, "old").unwrap();
        let target = |format, path: PathBuf| Target { format, path };
        let good = target(Format::Json, kept.clone());
        let bad = target(Format::Csv, "/no/such/folder/a.csv".into());
        assert_eq!(check_targets(std::slice::from_ref(&good)), Ok(()));
        assert_eq!(std::fs::read_to_string(&kept).unwrap(), "old");
        let problems = check_targets(&[good.clone(), bad, good]).unwrap_err();
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].starts_with("output csv=/no/such/folder/a.csv: there is no folder"));
    }
}
