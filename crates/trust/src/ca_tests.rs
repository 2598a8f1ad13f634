//! The development CA's files: private, never written over, and readable again.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::credentials::{Credentials, CredentialsError, Keeper};
use crate::inspect::{Files, Finding, check, show};

const DAY: Duration = Duration::from_secs(86_400);

fn year() -> Validity {
    Validity::starting(base::clock::unix_now().as_secs(), 365 * DAY)
}

fn month() -> Validity {
    Validity::starting(base::clock::unix_now().as_secs(), 30 * DAY)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// R22
#[test]
fn files_are_private_and_never_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("certs");
    let ca = DevCa::create(&home, "prod", "live", year()).unwrap();
    assert_eq!(mode(&home), 0o700);
    assert_eq!(mode(&home.join("ca.pem")), 0o600);
    assert_eq!(mode(&home.join("ca-key.pem")), 0o600);
    let before = fs::read(home.join("ca-key.pem")).unwrap();

    let again = DevCa::create(&home, "prod", "live", year());
    assert!(matches!(again, Err(CaError::Exists { .. })));
    // Nor if only one of the two is left.
    fs::rename(home.join("ca.pem"), home.join("kept.pem")).unwrap();
    assert!(matches!(DevCa::create(&home, "prod", "live", year()), Err(CaError::Exists { .. })));
    assert_eq!(fs::read(home.join("ca-key.pem")).unwrap(), before);
    assert!(!home.join("ca.pem").exists());

    let issued = ca.issue(Role::Worker, "fra", NodeId(7), month()).unwrap();
    let files = issued.write(&home).unwrap();
    assert_eq!((mode(&files.certificate), mode(&files.key)), (0o600, 0o600));
    let again = ca.issue(Role::Worker, "fra", NodeId(7), month()).unwrap();
    assert!(matches!(again.write(&home), Err(CaError::Exists { .. })));
    assert_eq!(fs::read_to_string(&files.certificate).unwrap(), issued.certificate);
    assert_eq!(fs::read_to_string(&files.key).unwrap(), issued.key);
    // The other half is taken: nothing of the new pair stays behind.
    fs::remove_file(&files.key).unwrap();
    assert!(matches!(again.write(&home), Err(CaError::Exists { .. })));
    assert!(!files.key.exists());
}

/// R22
#[test]
fn an_opened_ca_issues_what_the_first_one_accepts() {
    let folder = tempfile::tempdir().unwrap();
    let made = DevCa::create(folder.path(), "prod", "live", year()).unwrap();
    let opened = DevCa::open(folder.path()).unwrap();
    assert_eq!((opened.cluster(), opened.environment()), ("prod", "live"));
    assert_eq!(opened.validity, made.validity);
    let issued = opened.issue(Role::Gate, "fra", NodeId(3), month()).unwrap();
    let credentials = Credentials::from_pem(
        issued.certificate.as_bytes(),
        issued.key.as_bytes(),
        made.certificate().as_bytes(),
        base::clock::unix_now().as_secs(),
    )
    .unwrap();
    assert_eq!(credentials.identity(), &issued.identity);
    assert_eq!(credentials.not_after(), issued.validity.not_after);
}

#[test]
fn bad_requests_are_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let name = DevCa::create(folder.path(), "a b", "live", year());
    assert!(matches!(name, Err(CaError::Name { what: "cluster", .. })));
    let name = DevCa::create(folder.path(), "prod", "", year());
    assert!(matches!(name, Err(CaError::Name { what: "environment", .. })));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is written on refusal");

    let ca = DevCa::create(folder.path(), "prod", "live", year()).unwrap();
    let longer = ca.issue(
        Role::Gate,
        "fra",
        NodeId(1),
        Validity::starting(base::clock::unix_now().as_secs(), 400 * DAY),
    );
    assert!(matches!(longer, Err(CaError::Validity { .. })));
    let backwards = Validity { not_before: 10, not_after: 9 };
    assert!(matches!(
        ca.issue(Role::Gate, "fra", NodeId(1), backwards),
        Err(CaError::Validity { .. })
    ));
    let place = ca.issue(Role::Gate, "fra/1", NodeId(1), month());
    assert!(matches!(place, Err(CaError::Name { what: "datacenter", .. })));
}

#[test]
fn a_folder_that_is_no_ca_of_ours_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(DevCa::open(folder.path()), Err(CaError::Io { .. })));
    let ca = DevCa::create(folder.path(), "prod", "live", year()).unwrap();
    // A leaf in the place of the CA.
    let leaf = ca.issue(Role::Gate, "fra", NodeId(1), month()).unwrap();
    fs::write(folder.path().join("ca.pem"), &leaf.certificate).unwrap();
    fs::write(folder.path().join("ca-key.pem"), &leaf.key).unwrap();
    assert!(matches!(DevCa::open(folder.path()), Err(CaError::NotOurs { .. })));
    // The key of another.
    fs::write(folder.path().join("ca.pem"), ca.certificate()).unwrap();
    let error = DevCa::open(folder.path()).err().unwrap().to_string();
    assert!(error.contains("its key does not belong"), "{error}");
}

fn load(issued: &Issued, ca: &DevCa, now: u64) -> Result<Credentials, CredentialsError> {
    let (certificate, key) = (issued.certificate.as_bytes(), issued.key.as_bytes());
    Credentials::from_pem(certificate, key, ca.certificate().as_bytes(), now)
}

/// CORE-122: a node with bad credentials does not start, and says why.
#[test]
fn bad_credentials_fail_at_the_start() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let ca = DevCa::create(one.path(), "prod", "live", year()).unwrap();
    let other = DevCa::create(two.path(), "prod", "live", year()).unwrap();
    let now = base::clock::unix_now().as_secs();
    let good = ca.issue(Role::Worker, "fra", NodeId(7), month()).unwrap();
    let kind = |result: Result<Credentials, CredentialsError>| match result {
        Err(CredentialsError::Own(refusal)) => refusal.kind(),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("accepted"),
    };
    assert_eq!(kind(load(&good, &other, now)), "unknown_authority");
    assert_eq!(kind(load(&good, &ca, good.validity.not_after + 1)), "expired");
    assert_eq!(kind(load(&good, &ca, good.validity.not_before - 1)), "not_yet_valid");

    let swapped = Issued {
        key: ca.issue(Role::Worker, "fra", NodeId(7), month()).unwrap().key,
        ..good.clone()
    };
    assert!(matches!(load(&swapped, &ca, now), Err(CredentialsError::KeyMismatch)));
    // A leaf among the CAs would make its holder a CA of one.
    let leaf_as_ca = Credentials::from_pem(
        good.certificate.as_bytes(),
        good.key.as_bytes(),
        good.certificate.as_bytes(),
        now,
    );
    assert!(matches!(leaf_as_ca, Err(CredentialsError::NotACa { .. })));
    let long_ago = ca.validity.not_after + 1;
    assert!(matches!(load(&good, &ca, long_ago), Err(CredentialsError::CaExpired { .. })));
    for (certificate, key, authority) in [
        ("", good.key.as_str(), ca.certificate()),
        (good.certificate.as_str(), "", ca.certificate()),
        (good.certificate.as_str(), good.key.as_str(), "rubbish"),
    ] {
        let loaded = Credentials::from_pem(
            certificate.as_bytes(),
            key.as_bytes(),
            authority.as_bytes(),
            now,
        );
        assert!(matches!(loaded, Err(CredentialsError::Pem { .. })));
    }
}

#[test]
fn a_swap_keeps_the_identity() {
    let folder = tempfile::tempdir().unwrap();
    let ca = DevCa::create(folder.path(), "prod", "live", year()).unwrap();
    let now = base::clock::unix_now().as_secs();
    let issue = |node| ca.issue(Role::Worker, "fra", NodeId(node), month()).unwrap();
    let keeper = Keeper::new(load(&issue(7), &ca, now).unwrap());
    let first = Arc::clone(&keeper.current().certified);
    let error = keeper.swap(load(&issue(8), &ca, now).unwrap()).unwrap_err();
    assert!(error.to_string().contains("the old certificate stays in use"), "{error}");
    assert!(Arc::ptr_eq(&first, &keeper.current().certified));
    keeper.swap(load(&issue(7), &ca, now).unwrap()).unwrap();
    assert!(!Arc::ptr_eq(&first, &keeper.current().certified));
    assert!(!format!("{keeper:?}").to_lowercase().contains("key"), "no key in a log");
}

#[test]
fn show_and_check_say_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let ca = DevCa::create(folder.path(), "prod", "live", year()).unwrap();
    let issued = ca.issue(Role::Manager, "fra", NodeId(5), month()).unwrap();
    let written = issued.write(folder.path()).unwrap();
    let ca_path = folder.path().join("ca.pem");

    let facts = show(&written.certificate).unwrap();
    assert_eq!(facts.len(), 1);
    assert_eq!(facts[0].identity.as_ref(), Ok(&issued.identity));
    assert!(!facts[0].is_ca && show(&ca_path).unwrap()[0].is_ca);
    assert_eq!(facts[0].not_after, issued.validity.not_after);
    assert!(facts[0].issuer.contains("Volley development CA prod/live"), "{}", facts[0].issuer);
    assert!(show(&written.key).is_err());

    let files = Files { certificate: written.certificate, key: written.key, ca: ca_path };
    let now = base::clock::unix_now().as_secs();
    assert!(check(&files, now).is_empty());
    fs::set_permissions(&files.key, fs::Permissions::from_mode(0o644)).unwrap();
    let found = check(&files, now + 20 * DAY.as_secs());
    assert!(matches!(found[0], Finding::ExpiresSoon { .. }), "{found:?}");
    assert!(matches!(found[1], Finding::KeyReadable { mode: 0o644, .. }), "{found:?}");
    assert!(found.iter().all(|finding| !finding.is_fatal()));
    assert!(check(&files, now + 31 * DAY.as_secs())[0].is_fatal());
}

use std::sync::Arc;
