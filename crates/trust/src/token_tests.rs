//! Tokens as people copy them: whole, cut, changed, too late.

use std::time::Duration;

use fence::NodeId;
use proptest::prelude::*;

use super::*;
use crate::ca::{CaError, DevCa, Validity};
use crate::key::FreshKey;

const HOUR: Duration = Duration::from_secs(3600);

fn ca(cluster: &str) -> (tempfile::TempDir, DevCa) {
    let folder = tempfile::tempdir().unwrap();
    let ca = DevCa::create(
        folder.path(),
        cluster,
        "live",
        Validity::starting(base::clock::unix_now().as_secs(), 99 * HOUR),
    );
    (folder, ca.unwrap())
}

fn token() -> JoinToken {
    ca("prod").1.token("fra", Validity::starting(base::clock::unix_now().as_secs(), HOUR)).unwrap()
}

/// One line goes in and comes out, also the way a terminal wraps it.
#[test]
fn what_is_written_is_read() {
    let token = token();
    let text = token.to_text();
    assert!(text.starts_with("volley-join-1.") && text.len() < 2000, "{}", text.len());
    assert!(!text.contains(char::is_whitespace));
    let Identity { cluster, environment, role, datacenter, .. } = token.identity();
    assert_eq!((&cluster[..], &environment[..], &datacenter[..]), ("prod", "live", "fra"));
    assert_eq!(*role, Role::Recruit);
    let read = JoinToken::from_text(&text, base::clock::unix_now().as_secs()).unwrap();
    assert_eq!(read, token);
    let (front, back) = text.split_at(700);
    let wrapped = format!("  {front}\n{back}\r\n");
    assert_eq!(JoinToken::from_text(&wrapped, base::clock::unix_now().as_secs()).unwrap(), token);
    assert_eq!(
        read.credentials(base::clock::unix_now().as_secs()).unwrap().identity(),
        token.identity()
    );
    assert!(!format!("{token:?}").to_lowercase().contains("seed"), "no key in a log");
}

/// Every way in which a text can be wrong says which it is.
#[test]
fn what_is_wrong_with_a_token_is_said() {
    let token = token();
    let text = token.to_text();
    let says = |text: &str, now: u64, words: &str| {
        let error = JoinToken::from_text(text, now).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    let now = base::clock::unix_now().as_secs();
    says("", now, "not a join token");
    says("eyJhbGciOiJIUzI1NiJ9.e30.abc", now, "not a join token");
    says("volley-join-", now, "not a join token");
    says("volley-join-one.abcd", now, "not a join token");
    says("volley-join-0.abcd", now, "not a join token");
    says(&"volley-join-1.".repeat(5000), now, "not a join token");
    says(&text.replace("join-1", "join-2"), now, "is of version 2, this program reads version 1");
    says("volley-join-1.", now, "cut off after 14 characters");
    let all = text.len();
    says(&text[..100], now, &format!("cut off: 100 of {all} characters"));
    says(&text[..all - 1], now, &format!("cut off: {} of {all} characters", all - 1));
    says(&format!("{text}A"), now, "damaged");
    says(&format!("{text}AAAA"), now, "damaged");
    says(&text.replacen('.', ".*", 1), now, "damaged");
    let expired = format!("expired at {}; make a new one", Utc(token.not_after()));
    says(&text, token.not_after() + 1, &expired);
    says(&text, now - 2 * 3600, "valid only from");
    assert!(token.credentials(token.not_after() + 1).is_err());
}

/// A certificate that may do more is no token, and neither is one of another CA.
#[test]
fn only_a_recruit_of_its_own_ca_is_a_token() {
    let (_folder, ca) = ca("prod");
    let valid = Validity::starting(base::clock::unix_now().as_secs(), HOUR);
    let good = ca.token("fra", valid).unwrap();
    let foreign = self::ca("prod").1.token("fra", valid).unwrap();
    let mixed = JoinToken { ca: foreign.ca.clone(), ..good.clone() };
    let error = JoinToken::from_text(&mixed.to_text(), base::clock::unix_now().as_secs())
        .unwrap_err()
        .to_string();
    assert!(error.contains("unknown_authority"), "{error}");
    let mixed = JoinToken { seed: foreign.seed, ..good };
    let error = JoinToken::from_text(&mixed.to_text(), base::clock::unix_now().as_secs())
        .unwrap_err()
        .to_string();
    assert!(error.contains("does not belong to the certificate"), "{error}");

    let key = FreshKey::draw().unwrap();
    let worker = ca.issue_for(Role::Worker, "fra", NodeId(7), valid, &key.public).unwrap();
    let worker = crate::credentials::certificates("certificate", worker.as_bytes()).unwrap();
    let pair = rcgen::KeyPair::from_pem(&key.private).unwrap();
    let mixed = JoinToken {
        certificate: worker[0].clone(),
        seed: crate::key::seed(&pair).unwrap(),
        ..ca.token("fra", valid).unwrap()
    };
    let error =
        JoinToken::from_text(&mixed.to_text(), base::clock::unix_now().as_secs()).unwrap_err();
    assert!(matches!(error, TokenError::WrongRole { role: Role::Worker }), "{error}");
}

/// A certificate for a key that never came here works with that key and with no other.
#[test]
fn a_certificate_is_issued_for_a_key_that_stays_where_it_is() {
    let (_folder, ca) = ca("prod");
    let valid = Validity::starting(base::clock::unix_now().as_secs(), HOUR);
    let (mine, other) = (FreshKey::draw().unwrap(), FreshKey::draw().unwrap());
    let issued = ca.issue_for(Role::Worker, "fra", NodeId(7), valid, &mine.public).unwrap();
    let load = |key: &FreshKey| {
        let trusted = ca.certificate().as_bytes();
        Credentials::from_pem(
            issued.as_bytes(),
            key.private.as_bytes(),
            trusted,
            base::clock::unix_now().as_secs(),
        )
    };
    let loaded = load(&mine).unwrap();
    assert_eq!((loaded.identity().role, loaded.identity().node), (Role::Worker, NodeId(7)));
    assert!(matches!(load(&other), Err(CredentialsError::KeyMismatch)));
    for bad in [&b""[..], b"rubbish", &mine.public[..43], &[mine.public.as_slice(), b"x"].concat()]
    {
        let issued = ca.issue_for(Role::Worker, "fra", NodeId(7), valid, bad);
        assert!(matches!(issued, Err(CaError::Issue { .. })), "{bad:?}");
    }
    let too_long = Validity::starting(base::clock::unix_now().as_secs(), 100 * HOUR);
    let issued = ca.issue_for(Role::Worker, "fra", NodeId(7), too_long, &mine.public);
    assert!(matches!(issued, Err(CaError::Validity { .. })));
    assert!(matches!(ca.token("fra", too_long), Err(CaError::Validity { .. })));
    assert!(matches!(ca.token("f r a", valid), Err(CaError::Name { .. })));
}

/// Whom a node trusts decides whether it may hand out certificates of this CA.
#[test]
fn a_ca_is_found_among_those_that_are_trusted() {
    let ((_one, ca), (_two, other)) = (ca("prod"), self::ca("prod"));
    let both = format!("{}{}", other.certificate(), ca.certificate());
    assert!(ca.is_among(ca.certificate().as_bytes()) && ca.is_among(both.as_bytes()));
    assert!(!ca.is_among(other.certificate().as_bytes()) && !ca.is_among(b"rubbish"));
}

proptest! {
    /// No text makes the reader panic, and whatever is cut from a token is missed.
    #[test]
    fn arbitrary_texts_are_refused(tail in "[ -~]{0,80}", at in 0usize..4000) {
        prop_assert!(JoinToken::from_text(&tail, 1).is_err());
        let begun = format!("volley-join-1.{tail}");
        prop_assert!(JoinToken::from_text(&begun, 1).is_err());
        let text = SOME.with(Clone::clone);
        let cut = &text[..at.min(text.len() - 1)];
        let error = JoinToken::from_text(cut, base::clock::unix_now().as_secs()).unwrap_err();
        let said = matches!(error, TokenError::CutOff { .. });
        prop_assert!(said || cut.len() < 14, "{}", error);
    }
}

thread_local! {
    static SOME: String = token().to_text();
}
