//! Where the cluster is that a client talks to, and which certificate it shows there.
//!
//! ```text
//! --manager, --certs  >  VOLLEY_MANAGER, VOLLEY_CERTS  >  ./volley-cluster/client.json
//!                                                      >  $XDG_STATE_HOME/volley/cluster/client.json
//! ```
//!
//! `volley up` writes the file, so that `volley submit` needs no flags.

use crate::failure::Failure;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// In the folder where one works; it goes before the user's own.
pub const LOCAL: &str = "volley-cluster";
pub const FILE: &str = "client.json";
/// Larger is no such file.
const FILE_BYTES_MAX: u64 = 64 << 10;
const MANAGERS_MAX: usize = 64;

/// What a client has to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientFile {
    /// `host:port` of each manager.
    pub managers: Vec<String>,
    /// A folder of `volley certs issue --role client`.
    pub certs: PathBuf,
}

/// The user's folder for what survives a session: `$XDG_STATE_HOME/volley`.
pub fn state_folder() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let state = set("XDG_STATE_HOME")
        .map(PathBuf::from)
        .or_else(|| set("HOME").map(|home| Path::new(&home).join(".local/state")));
    state.map(|state| state.join("volley"))
}

/// Where `volley up` puts its cluster if nobody says otherwise.
pub fn default_folder() -> Option<PathBuf> {
    state_folder().map(|state| state.join("cluster"))
}

/// Writes `client.json` into `folder`, in one step: a reader sees the old one or the new one. Where
/// it is.
pub fn write(folder: &Path, file: &ClientFile) -> Result<PathBuf, Failure> {
    let path = folder.join(FILE);
    let fail = |error: std::io::Error| Failure::failed(error).at(path.display());
    std::fs::create_dir_all(folder).map_err(fail)?;
    // Whoever reads it may stand elsewhere.
    let certs = std::path::absolute(&file.certs).map_err(fail)?;
    let text = json!({ "managers": file.managers, "certs": certs });
    let fresh = folder.join(format!("{FILE}.{}", std::process::id()));
    let mut out = std::fs::File::create(&fresh).map_err(fail)?;
    writeln!(out, "{text:#}").and_then(|()| out.sync_all()).map_err(fail)?;
    std::fs::rename(&fresh, &path).map_err(fail)?;
    Ok(path)
}

/// Takes the file away, if it still says the same: the cluster has ended, and no other was started
/// since.
pub fn remove(folder: &Path, file: &ClientFile) {
    let path = folder.join(FILE);
    if read(&path).is_ok_and(|there| there.managers == file.managers) {
        let _ = std::fs::remove_file(path);
    }
}

/// The file of the nearest cluster, and where it is; `None`: there is none.
pub fn find() -> Result<Option<(PathBuf, ClientFile)>, Failure> {
    let places = [Some(PathBuf::from(LOCAL)), default_folder()];
    for folder in places.into_iter().flatten() {
        let path = folder.join(FILE);
        if path.is_file() {
            return read(&path).map(|file| Some((path, file)));
        }
    }
    Ok(None)
}

pub fn read(path: &Path) -> Result<ClientFile, Failure> {
    let fail = |why: &str| Failure::failed(why).at(path.display());
    let size = std::fs::metadata(path).map_err(|error| fail(&error.to_string()))?.len();
    if size > FILE_BYTES_MAX {
        return Err(fail("too large for a file that says where a cluster is"));
    }
    let text = std::fs::read_to_string(path).map_err(|error| fail(&error.to_string()))?;
    let value: Value =
        serde_json::from_str(&text).map_err(|error| fail(&format!("not JSON: {error}")))?;
    let managers: Option<Vec<String>> = value["managers"]
        .as_array()
        .filter(|list| (1..=MANAGERS_MAX).contains(&list.len()))
        .and_then(|list| list.iter().map(|one| one.as_str().map(str::to_owned)).collect());
    match (managers, value["certs"].as_str()) {
        (Some(managers), Some(certs)) => Ok(ClientFile { managers, certs: certs.into() }),
        _ => Err(fail("expected {\"managers\": [\"HOST:PORT\", ...], \"certs\": \"DIR\"}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("a/cluster");
        let managers = vec!["127.0.0.1:7500".to_owned(), "[::1]:7501".to_owned()];
        let file = ClientFile { managers, certs: folder.path().join("me") };
        let path = write(&place, &file).unwrap();
        assert_eq!(read(&path), Ok(file.clone()));
        let moved = ClientFile { managers: vec!["b:1".to_owned()], ..file.clone() };
        write(&place, &moved).unwrap();
        assert_eq!(read(&path), Ok(moved.clone()));
        remove(&place, &file);
        assert!(path.exists(), "another cluster's");
        remove(&place, &moved);
        remove(&place, &moved);
        assert!(!path.exists());
    }

    #[test]
    fn a_file_that_says_nothing_useful_is_refused_with_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        for (text, word) in [
            ("{", "not JSON"),
            ("{}", "expected"),
            (r#"{"managers": [], "certs": "x"}"#, "expected"),
            (r#"{"managers": [1], "certs": "x"}"#, "expected"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = read(&path).unwrap_err().to_string();
            assert!(error.contains("client.json") && error.contains(word), "{error}");
        }
    }
}
