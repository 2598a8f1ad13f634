//! Idempotency keys as text, and the job id that follows from one.

use ledger_state::{IdempotencyKey, KeyProblem};
use proptest::prelude::*;

use crate::world::key;

const NONCE: &str = "00112233445566778899aabbccddeeff";

/// IDEM-10: a client id with colons in it is read whole.
#[test]
fn a_client_may_contain_colons() {
    let text = format!("host1.dc1:12345:42:{NONCE}");
    let key: IdempotencyKey = text.parse().unwrap();
    assert_eq!(key.client, "host1.dc1:12345");
    assert_eq!(key.sequence, 42);
    assert_eq!(key.nonce[..3], [0x00, 0x11, 0x22]);
    assert_eq!(key.to_string(), text);
}

/// IDEM-13: each malformed key is refused with what is wrong with it.
#[test]
fn malformed_keys_are_refused_by_name() {
    let long = "x".repeat(129);
    let cases = [
        (String::new(), KeyProblem::Parts),
        ("only-one".to_owned(), KeyProblem::Parts),
        (format!("42:{NONCE}"), KeyProblem::Parts),
        (format!(":42:{NONCE}"), KeyProblem::NoClient),
        (format!("a:minus:{NONCE}"), KeyProblem::Sequence),
        (format!("a:+1:{NONCE}"), KeyProblem::Sequence),
        (format!("a:-1:{NONCE}"), KeyProblem::Sequence),
        (format!("a::{NONCE}"), KeyProblem::Sequence),
        (format!("a:18446744073709551616:{NONCE}"), KeyProblem::Sequence),
        ("a:1:xyz".to_owned(), KeyProblem::Nonce),
        (format!("a:1:{}", &NONCE[1..]), KeyProblem::Nonce),
        (format!("a:1:{}g", &NONCE[1..]), KeyProblem::Nonce),
        (format!("{long}:1:{NONCE}"), KeyProblem::ClientTooLong { bytes: 129 }),
        (format!("a\nb:1:{NONCE}"), KeyProblem::ControlCharacter),
    ];
    for (text, problem) in cases {
        let error = text.parse::<IdempotencyKey>().unwrap_err();
        assert_eq!(error.problem, problem, "{text}");
        assert!(error.to_string().starts_with("invalid idempotency key `"), "{error}");
    }
}

/// The id follows from tenant and key, and from all of both.
#[test]
fn the_job_id_is_a_function_of_tenant_and_key() {
    let base = key(1);
    let id = base.job_id("acme");
    assert_eq!(id, base.clone().job_id("acme"));
    assert_eq!(
        id.to_string(),
        "b8e9f88b-5c2e-2f39-a441-8d2c4b7ba063",
        "pinned: ids outlive versions"
    );
    assert_ne!(id, base.job_id("acme2"));
    assert_ne!(id, key(2).job_id("acme"));
    assert_ne!(id, IdempotencyKey { nonce: [8; 16], ..base.clone() }.job_id("acme"));
    // The border between tenant and client counts.
    let shifted = IdempotencyKey { client: format!("e{}", base.client), ..base };
    assert_ne!(id, shifted.job_id("acm"));
}

proptest! {
    /// IDEM-10: text and key are the same thing.
    #[test]
    fn every_valid_key_survives_its_text(client in "[^\\p{Cc}]{1,40}", sequence: u64, nonce: [u8; 16]) {
        prop_assume!(client.len() <= IdempotencyKey::CLIENT_BYTES);
        let key = IdempotencyKey { client, sequence, nonce };
        prop_assert_eq!(key.to_string().parse::<IdempotencyKey>(), Ok(key));
    }

    #[test]
    fn no_text_panics_the_parser(text in ".*") {
        let _ = text.parse::<IdempotencyKey>();
    }
}
