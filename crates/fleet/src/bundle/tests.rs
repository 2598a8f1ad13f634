//! A bundle is read as it was packed, whatever is in it; what is no bundle is refused with the
//! reason.

use std::sync::Arc;

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;

use super::*;

fn small() -> Bundle {
    let text = "name: small
target: http://127.0.0.1:1
thresholds: [ { metric: http_req_failed, hold: rate < 1% } ]
workflows:
  - name: one
    load: { vus: 2, duration: 1s }
    steps: [ { name: get, get: / } ]
";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.yaml");
    std::fs::write(&path, text).unwrap();
    let (plan, packed) = PackedPlan::pack(&path, &plan::ReadOptions::new(&|_| None)).unwrap();
    Bundle::of_plan(&plan, packed, Policy::default()).unwrap()
}

fn texts() -> impl Strategy<Value = BTreeMap<String, String>> {
    btree_map(".{0,20}", ".{0,20}", 0..4)
}

fn content() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..100)
}

fn any_plan() -> impl Strategy<Value = Payload> {
    let files = vec((".{0,20}", content()), 0..4);
    (".{0,20}", ".{0,200}", 0..3_u8, option::of(".{0,20}"), texts(), files).prop_map(
        |(name, text, format, target, env, files)| Payload::Plan {
            name,
            text,
            format,
            target,
            env,
            files,
        },
    )
}

fn any_script() -> impl Strategy<Value = Payload> {
    let files = vec((".{0,20}".prop_map(PathBuf::from), content()), 0..4);
    let flags = any::<[bool; 3]>();
    (".{0,20}", ".{0,20}", files, texts(), ".{0,40}", flags).prop_map(
        |(name, entry, files, env, options, [sections, no_thresholds, strict])| Payload::Script {
            name,
            entry,
            files,
            env,
            options,
            sections,
            no_thresholds,
            strict,
        },
    )
}

fn any_content() -> impl Strategy<Value = Payload> {
    prop_oneof![any_plan(), any_script()].prop_map(|content| match content {
        // A third kind would not compile here.
        Payload::Plan { .. } | Payload::Script { .. } => content,
    })
}

/// Everything that a worker gets out of it, as text.
fn unpacked(bundle: Bundle) -> String {
    let script = |path: &PathBuf, bytes: &Arc<[u8]>| format!("{}={bytes:?}", path.display());
    match bundle.into_packed() {
        Packed::Plan(PackedPlan { name, text, format, target, env, files }) => {
            let files: Vec<_> = files
                .iter()
                .map(|(name, content)| match content {
                    Content::Bytes(bytes) => format!("{name}={bytes:?}"),
                    Content::Stored(path) => format!("{name}: {}", path.display()),
                })
                .collect();
            format!("{name:?} {text:?} {format:?} {target:?} {env:?} {files:?}")
        }
        Packed::Script(packed) => {
            let PackedScript { name, entry, files, env, options, .. } = &packed;
            let PackedScript { sections, no_thresholds, strict, .. } = &packed;
            let files: Vec<_> = files.iter().map(|file| script(&file.path, &file.bytes)).collect();
            format!(
                "{name:?} {entry:?} {files:?} {env:?} {options:?} {sections} {no_thresholds} {strict}"
            )
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// ARCH-153: what a client packs is what a worker unpacks.
    #[test]
    fn a_bundle_survives_its_codec(name in ".{0,40}", strict in any::<bool>(), content in any_content()) {
        let bundle = Bundle { name, strict, content, ..small() };
        let bytes = bundle.encode().unwrap();
        let read = Bundle::decode(&bytes).unwrap();
        prop_assert_eq!(read.encode().unwrap(), &bytes[..]);
        prop_assert_eq!(&read.name, &bundle.name);
        prop_assert_eq!(&read.manifest, &bundle.manifest);
        prop_assert_eq!(&read.thresholds, &bundle.thresholds);
        let head = BundleHead::decode(&bytes).unwrap();
        prop_assert_eq!(head.is_script(), matches!(bundle.content, Payload::Script { .. }));
        prop_assert_eq!((&head.name, head.strict), (&bundle.name, bundle.strict));
        prop_assert_eq!(&head.schema, &bundle.schema);
        prop_assert_eq!(unpacked(read), unpacked(bundle));
    }

    #[test]
    fn a_damaged_bundle_is_refused_or_is_another(
        content in any_content(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = Bundle { content, ..small() }.encode().unwrap();
        for (at, to) in damage {
            let place = at.index(bytes.len());
            bytes[place] = to;
        }
        if let Ok(bundle) = Bundle::decode(&bytes) {
            let written = bundle.encode().unwrap();
            prop_assert_eq!(Bundle::decode(&written).unwrap().encode().unwrap(), written);
        }
    }
}

#[test]
fn what_is_no_bundle_is_refused_with_the_reason() {
    let bytes = small().encode().unwrap();
    let refused = |bytes: &[u8]| Bundle::decode(bytes).map(|_| ()).unwrap_err();
    for cut in 0..bytes.len() {
        let text = refused(&bytes[..cut]).to_string();
        let expected = if cut < MAGIC.len() { "this is not a job" } else { "the job is damaged: " };
        assert!(text.starts_with(expected), "cut at {cut}: {text}");
    }
    let changed = |place: usize, to: u8| {
        let mut bytes = bytes.clone();
        bytes[place] = to;
        refused(&bytes)
    };
    assert_eq!(changed(0, b'X'), BundleError::NotABundle);
    let newer = changed(MAGIC.len(), VERSION + 1);
    assert_eq!(newer, BundleError::TooNew { version: VERSION + 1 });
    assert!(newer.to_string().contains("bring the managers and workers up"), "{newer}");
    assert!(matches!(changed(MAGIC.len(), 0), BundleError::Malformed(_)));
    let mut long = bytes.clone();
    long.push(0);
    assert!(refused(&long).to_string().contains("1 bytes too many"));
    let Payload::Plan { name, text, target, env, files, .. } = small().content else {
        unreachable!()
    };
    let content = Payload::Plan { name, text, format: 3, target, env, files };
    let strange = Bundle { content, ..small() }.encode().unwrap();
    assert!(refused(&strange).to_string().contains("no language that is known"));
    let large = vec![0; BUNDLE_BYTES_MAX + 1];
    assert_eq!(refused(&large), BundleError::TooLarge { bytes: BUNDLE_BYTES_MAX + 1 });
}
