//! What the parser of identities accepts, and by which name it refuses the rest.

use proptest::prelude::*;

use super::*;

const NODE: &str = "00000000-0000-0000-0000-0000000000ab";

fn good() -> Vec<String> {
    vec![
        "volley://role/worker".into(),
        "volley://cluster/prod-1".into(),
        "volley://env/live".into(),
        "volley://dc/fra.1".into(),
        format!("volley://node/{NODE}"),
    ]
}

fn parse(uris: &[String]) -> Result<Identity, IdentityError> {
    Identity::from_uris(uris.iter().map(String::as_str))
}

fn with(changed: &str, replacement: &str) -> Vec<String> {
    let prefix = format!("volley://{changed}/");
    let mut uris = good();
    for uri in &mut uris {
        if uri.starts_with(&prefix) {
            *uri = replacement.to_owned();
        }
    }
    uris
}

/// CORE-123
#[test]
fn five_claims_make_an_identity() {
    let identity = parse(&good()).unwrap();
    assert_eq!(identity.role, Role::Worker);
    assert_eq!(identity.cluster, "prod-1");
    assert_eq!(identity.environment, "live");
    assert_eq!(identity.datacenter, "fra.1");
    assert_eq!(identity.node, NodeId(0xab));
}

/// CORE-123
#[test]
fn names_of_other_schemes_are_left_alone() {
    let mut uris = good();
    uris.push("spiffe://example.org/worker".into());
    uris.push("https://example.org/role/gate".into());
    uris.push(String::new());
    uris.push("vølley".into());
    assert_eq!(parse(&uris), parse(&good()));
}

/// CORE-123
#[test]
fn every_missing_claim_is_named() {
    for claim in CLAIMS {
        let prefix = format!("volley://{claim}/");
        let uris: Vec<String> = good().into_iter().filter(|u| !u.starts_with(&prefix)).collect();
        assert_eq!(parse(&uris), Err(IdentityError::Missing { claim }));
    }
}

/// CORE-123: one certificate with several roles is refused, even if they agree.
#[test]
fn every_doubled_claim_is_named() {
    for claim in CLAIMS {
        let prefix = format!("volley://{claim}/");
        let mut uris = good();
        let again = uris.iter().find(|uri| uri.starts_with(&prefix)).unwrap().clone();
        uris.push(again);
        assert_eq!(parse(&uris), Err(IdentityError::Doubled { claim }));
    }
    let mut two_roles = good();
    two_roles.push("volley://role/gate".into());
    assert_eq!(parse(&two_roles), Err(IdentityError::Doubled { claim: "role" }));
}

/// CORE-123
#[test]
fn unknown_and_malformed_names_of_our_scheme_are_refused() {
    for extra in [
        "volley://colour/red",
        "VOLLEY://role/gate",
        "Volley://cluster/x",
        "volley://role",
        "volley://",
        "volley://Role/gate",
        "volley:///role/gate",
    ] {
        let mut uris = good();
        uris.push(extra.into());
        assert_eq!(parse(&uris), Err(IdentityError::Unknown { uri: extra.into() }), "{extra}");
    }
}

/// CORE-123
#[test]
fn values_are_checked_one_by_one() {
    let name = |claim, why| Err(IdentityError::BadName { claim, why });
    let long = "x".repeat(65);
    let cases = [
        ("cluster", "volley://cluster/".to_owned(), name("cluster", NameError::Empty)),
        ("env", "volley://env/a b".into(), name("env", NameError::Character { found: ' ' })),
        ("dc", "volley://dc/fra/1".into(), name("dc", NameError::Character { found: '/' })),
        ("dc", "volley://dc/fra?x=1".into(), name("dc", NameError::Character { found: '?' })),
        ("env", "volley://env/prö".into(), name("env", NameError::Character { found: 'ö' })),
        (
            "cluster",
            format!("volley://cluster/{long}"),
            name("cluster", NameError::Oversized { bytes: 65 }),
        ),
        (
            "cluster",
            format!("volley://cluster/{}", "x".repeat(1000)),
            Err(IdentityError::Oversized { bytes: 1017 }),
        ),
        (
            "role",
            "volley://role/Worker".into(),
            Err(IdentityError::BadRole(RoleError { found: "Worker".into() })),
        ),
    ];
    for (claim, uri, expected) in cases {
        assert_eq!(parse(&with(claim, &uri)), expected, "{uri}");
    }
    let bad_node = parse(&with("node", "volley://node/17"));
    assert!(matches!(bad_node, Err(IdentityError::BadNode(_))), "{bad_node:?}");
    let longest = "x".repeat(64);
    assert!(parse(&with("cluster", &format!("volley://cluster/{longest}"))).is_ok());
}

fn name() -> impl Strategy<Value = String> {
    "[A-Za-z0-9._-]{1,64}"
}

proptest! {
    /// CORE-123: what is written is read back, in whatever order the names stand.
    #[test]
    fn what_is_written_is_read(
        cluster in name(), environment in name(), datacenter in name(), node: u128,
        role in prop::sample::select(Role::ALL.to_vec()), turn in 0usize..5,
    ) {
        let identity = Identity { cluster, environment, role, datacenter, node: NodeId(node) };
        let mut uris = identity.uris();
        uris.rotate_left(turn);
        prop_assert_eq!(Identity::from_uris(uris.iter().map(String::as_str)), Ok(identity));
    }

    /// CORE-123: no text makes the parser panic, and no text is accepted that is not written back
    /// the same.
    #[test]
    fn arbitrary_names_are_refused_or_exact(
        uris in prop::collection::vec("(volley://(role|cluster|env|dc|node|x)/)?[ -~é]{0,40}", 0..8)
    ) {
        if let Ok(identity) = parse(&uris) {
            for uri in identity.uris() {
                // Node ids may be written without hyphens; all other claims are literal.
                prop_assert!(uri.starts_with("volley://node/") || uris.contains(&uri));
            }
        }
    }

    /// CORE-123: bytes that are no certificate are refused by name.
    #[test]
    fn arbitrary_bytes_are_no_certificate(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let der = CertificateDer::from(bytes);
        prop_assert!(Identity::from_certificate(&der).is_err());
    }
}
