//! A folder with a node's files: which is which.
//!
//! ```text
//! DIR/NAME.pem  DIR/NAME-key.pem     exactly one pair
//! DIR/ca.pem                         whom it trusts
//! DIR/gossip.key                     nodes only; clients have none
//! ```

use crate::failure::Failure;
use std::path::{Path, PathBuf};

use trust::{Files, Role, create_private};

pub const CA_FILE: &str = "ca.pem";
pub const CA_KEY_FILE: &str = "ca-key.pem";
pub const GOSSIP_FILE: &str = "gossip.key";

/// Entries looked at; a folder of ours has five.
const ENTRIES_MAX: usize = 4096;

/// The names of all pairs, in order.
pub fn pairs(folder: &Path) -> Result<Vec<String>, Failure> {
    let shown = folder.display();
    let entries = std::fs::read_dir(folder)
        .map_err(|error| Failure::failed(error).at(format!("cannot read the folder {shown}")))?;
    let mut found: Vec<String> = entries
        .take(ENTRIES_MAX)
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix("-key.pem").map(str::to_owned))
        .filter(|name| name != "ca" && folder.join(format!("{name}.pem")).exists())
        .collect();
    found.sort();
    Ok(found)
}

pub fn files_of(folder: &Path, name: &str) -> Files {
    Files {
        certificate: folder.join(format!("{name}.pem")),
        key: folder.join(format!("{name}-key.pem")),
        ca: folder.join(CA_FILE),
    }
}

/// The one pair in `folder`.
pub fn find(folder: &Path) -> Result<Files, Failure> {
    match &pairs(folder)?[..] {
        [name] => Ok(files_of(folder, name)),
        [] if folder.join(CA_KEY_FILE).exists() => {
            let shown = folder.display();
            let what = "is the folder of a CA, which signs certificates and is shown to nobody";
            Err(Failure::failed(format!("{shown} {what}")).help(format!(
                "issue one into a folder of its own: volley certs issue --ca {shown} --role client --datacenter NAME \
                 --out ./client (of a node: --role worker or manager)"
            )))
        }
        [] if nested(folder).is_some() => {
            let inner = nested(folder).unwrap_or_default();
            Err(Failure::failed(format!("{} has no certificate with its key", folder.display()))
                .help(format!("did you mean {}?", inner.display())))
        }
        [] => {
            let shown = folder.display();
            let how = "volley certs issue --ca CA --role ROLE --datacenter NAME --out";
            let what = format!("{shown} has no NAME.pem with a NAME-key.pem beside it");
            Err(Failure::failed(what).help(format!("make them with: {how} {shown}")))
        }
        several => {
            let (shown, count, names) = (folder.display(), several.len(), several.join(", "));
            Err(Failure::failed(format!("{shown} has {count} certificates with keys ({names})"))
                .help("give each node a folder of its own"))
        }
    }
}

/// Fails if there is a certificate already: a node takes a folder with one.
pub fn check_has_none(folder: &Path) -> Result<(), Failure> {
    match pairs(folder).unwrap_or_default().first() {
        None => Ok(()),
        Some(known) => {
            let what = format!("{} has a certificate already ({known}.pem)", folder.display());
            Err(Failure::failed(format!("{what}, and a node takes a folder with one"))
                .help("choose another folder, or move that one away"))
        }
    }
}

/// A folder in it that has a pair: `w1/certs` of `w1`, `cluster/client` of `cluster`.
fn nested(folder: &Path) -> Option<PathBuf> {
    let places = ["certs", "client"].map(|name| folder.join(name));
    places.into_iter().find(|place| pairs(place).is_ok_and(|pairs| pairs.len() == 1))
}

/// Whose certificate it is, if it can be read.
pub fn role_of(files: &Files) -> Option<Role> {
    let facts = trust::show(&files.certificate).ok()?.into_iter().next()?;
    Some(facts.identity.ok()?.role)
}

/// Says first what is wrong first: a certificate of another role opens nothing, whatever else is
/// missing.
pub fn must_be(folder: &Path, files: &Files, wanted: &[Role]) -> Result<(), Failure> {
    match (role_of(files), wanted) {
        (Some(role), [first, ..]) if !wanted.contains(&role) => {
            let what = format!("the certificate in {} is a {role}'s", folder.display());
            Err(Failure::failed(format!("{what}, and this needs a {first}'s")).help(format!(
                "issue one: volley certs issue --ca CA --role {first} --datacenter NAME --out DIR"
            )))
        }
        _ => Ok(()),
    }
}

/// A private key that others can read is theirs, too.
pub fn warn_if_readable(files: &Files) {
    use std::os::unix::fs::PermissionsExt;
    let Ok(found) = std::fs::metadata(&files.key) else { return };
    let mode = found.permissions().mode() & 0o7777;
    if mode & 0o077 != 0 {
        let finding = trust::Finding::KeyReadable { path: files.key.clone(), mode };
        eprintln!("volley: {finding}");
    }
}

/// Whether `bytes` can be there: nothing is, or just that.
pub fn check_free_for(folder: &Path, name: &str, bytes: &[u8]) -> Result<(), Failure> {
    let path = folder.join(name);
    match std::fs::read(&path) {
        Ok(there) if there == bytes => Ok(()),
        Ok(_) => {
            let what = "is that of another cluster and is not written over";
            Err(Failure::failed(format!("{} {what}", path.display())).help("choose another folder"))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Failure::failed(error).at(path.display())),
    }
}

/// Writes a file that several certificates in one folder share.
pub fn create_or_keep(folder: &Path, name: &str, bytes: &[u8]) -> Result<(), Failure> {
    let path: PathBuf = folder.join(name);
    match create_private(&path, bytes) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            check_free_for(folder, name, bytes)
        }
        Err(error) => Err(Failure::failed(error).at(path.display())),
    }
}
