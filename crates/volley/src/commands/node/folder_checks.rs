//! What is looked at before a node starts: its data folder, and the ports of those beside it.

use std::path::Path;

use membership::discovery::Seed;
use trust::Role;

use super::refused;
use crate::failure::Failure;

/// Whose a folder is that this user may not write.
pub fn not_ours(path: &Path) -> String {
    use std::os::unix::fs::MetadataExt;
    let folder = path.parent().unwrap_or(path);
    let owner = std::fs::metadata(folder).map(|found| found.uid());
    let owner = owner.map_or(String::new(), |uid| format!("; it belongs to user {uid}"));
    // SAFETY: it takes nothing and cannot fail.
    let own = unsafe { libc::geteuid() };
    format!(
        "the data folder {} cannot be written by this user ({own}){owner}: change its owner, or give another --data",
        folder.display()
    )
}

/// What a role keeps in its data folder, and no other does.
const KEPT_BY: [(Role, &str); 2] = [(Role::Manager, "ledger"), (Role::Worker, "node")];

/// A data folder is one node's. Two roles would not be in each other's way at once, and are after
/// the next start.
pub fn check_data(data: &Path, role: Role) -> Result<(), Failure> {
    if data.is_file() {
        return Err(Failure::failed(format!("--data {} is a file", data.display()))
            .help("name a folder; it is made if it is missing"));
    }
    let has = |name: &str| data.join(name).exists();
    let own = KEPT_BY.iter().any(|(known, name)| *known == role && has(name));
    let other = KEPT_BY.iter().find(|(known, name)| *known != role && has(name));
    match other {
        // Folders of both are from before this was asked for; only a manager says who it is in one.
        Some((other, _)) if !own || role == Role::Worker => {
            let shown = data.display();
            let failure = refused(&format!("{shown} is the data folder of a {other}"));
            Err(failure.help(format!("give this {role} a --data of its own")))
        }
        _ => Ok(()),
    }
}

/// Two managers of one machine whose ports are next to each other.
pub fn in_each_others_way(peers: &[Seed]) -> Option<(&Seed, &Seed)> {
    let of_ledger = |one: &Seed| fleet::local::ledger_of(one).to_string();
    peers.iter().find_map(|one| {
        let ledger = of_ledger(one);
        peers.iter().find(|other| other.to_string() == ledger).map(|other| (one, other))
    })
}
