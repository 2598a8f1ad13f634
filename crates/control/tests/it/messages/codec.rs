//! Every message survives its codec; what is damaged, cut, too large or from the future is refused
//! by name, and costs no more memory than the bytes that came.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt::Debug;

use control::codec::{CONTRACT, CodecError, MESSAGE_BYTES_MAX, Message, Renewals, decode, encode};
use control::message::{
    EndReport, FrameBatch, FrameBatchAck, RenewRequest, Renewal, ReportAck, WorkerInventory,
    WorkerReport, WorkerRequest, WorkerResponse,
};
use fence::{BootId, JobId, NodeId};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde::{Deserialize, Serialize};

use crate::messages::every::{Every, attempt, frames, holdings, renew, report, shard};

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
}

/// Counts what each thread asks for.
struct Counting;

impl Counting {
    fn add(bytes: usize) {
        // A thread that is ending counts nothing more.
        let _ = ALLOCATED.try_with(|sum| sum.set(sum.get().saturating_add(bytes)));
    }
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::add(layout.size());
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        Self::add(size.saturating_sub(layout.size()));
        // SAFETY: as the caller promised.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What is read of these bytes, and that it cost no more than they are worth: an empty text of one
/// byte becomes a `String` of 24, an entry of a map a little more. A list that announces as many
/// entries as bytes are left has their room taken before it turns out to be none; the largest entry
/// is an attempt that a worker holds, 80 bytes.
#[track_caller]
fn read<M: Message>(bytes: &[u8]) -> Result<M, CodecError> {
    ALLOCATED.set(0);
    let message = decode(bytes);
    let (allocated, limit) = (ALLOCATED.get(), 96 * bytes.len() + 1024);
    assert!(allocated <= limit, "{allocated} bytes for {} of {}", bytes.len(), M::NAME);
    message
}

#[track_caller]
fn run<T: Debug>(cases: u32, strategy: &impl Strategy<Value = T>, test: impl Fn(T)) {
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    TestRunner::new(config)
        .run(strategy, |value| {
            test(value);
            Ok(())
        })
        .unwrap();
}

/// One message and everything that can be wrong with its bytes.
fn examine<M: Message + PartialEq + Debug>(message: &M) {
    let bytes = encode(message).unwrap();
    assert_eq!(read::<M>(&bytes).as_ref(), Ok(message));
    for cut in 0..bytes.len() {
        let refused = read::<M>(&bytes[..cut]).expect_err("the rest is missing");
        assert_eq!(refused.name(), "malformed", "cut at {cut} of {}", bytes.len());
        assert!(refused.to_string().starts_with(M::NAME), "{refused}");
    }
    let mut changed = bytes.clone();
    changed.push(0);
    assert!(read::<M>(&changed).unwrap_err().to_string().contains("after its end"));
    changed = bytes.clone();
    changed[0] = CONTRACT + 1;
    let refused = read::<M>(&changed).unwrap_err();
    assert_eq!(refused, CodecError::FutureVersion { what: M::NAME, needs: CONTRACT + 1 });
    assert!(refused.to_string().contains("bring it up to the sender's version"), "{refused}");
    changed[0] = 0;
    assert_eq!(read::<M>(&changed).unwrap_err().name(), "malformed");
}

fn every_kind<M: Message + Every + PartialEq + 'static>() {
    for (kind, strategy) in M::each() {
        run(48, &strategy, |message| {
            assert_eq!(message.kind(), kind, "made as another kind");
            examine(&message);
        });
    }
}

fn renewals() -> impl Strategy<Value = Renewals> {
    vec((shard(), attempt(), Renewal::any()), 0..6)
}

/// ARCH-153: everything that is said between managers and workers is read as it was said. A kind
/// that is added to one of these has to be added to `kinds.rs`, or it does not compile.
#[test]
fn every_message_survives_its_codec() {
    every_kind::<WorkerRequest>();
    every_kind::<WorkerResponse>();
    every_kind::<WorkerReport>();
    every_kind::<ReportAck>();
    every_kind::<FrameBatchAck>();
    run(96, &holdings(), |message| examine(&message));
    run(96, &report(), |message| examine(&message));
    run(96, &frames(), |message| examine(&message));
    run(96, &renew(), |message| examine(&message));
    run(96, &renewals(), |message| examine(&message));
    examine(&());
}

/// And there is no other message than those.
#[test]
fn every_message_is_examined() {
    let source = include_str!("../../../src/codec.rs");
    let known = source.lines().filter_map(|line| line.strip_prefix("impl Message for "));
    let known: BTreeSet<&str> = known.map(|name| name.trim_end_matches(" {")).collect();
    let examined = [
        "WorkerRequest",
        "WorkerResponse",
        "WorkerReport",
        "ReportAck",
        "FrameBatchAck",
        "WorkerInventory",
        "EndReport",
        "FrameBatch",
        "RenewRequest",
        "Renewals",
        "()",
    ];
    assert_eq!(known, BTreeSet::from(examined));
}

/// Reads as every message there is; whatever is read can be written, and is then read as the same.
fn read_as_everything(bytes: &[u8]) {
    fn one<M: Message>(bytes: &[u8]) {
        match read::<M>(bytes) {
            Err(refused) => {
                assert!(["malformed", "future_version", "too_large"].contains(&refused.name()));
                assert!(refused.to_string().starts_with(M::NAME), "{refused}");
            }
            Ok(message) => {
                // Bytes again, because a rate may be no number, which is not equal to itself.
                let written = encode(&message).unwrap();
                let again = encode(&decode::<M>(&written).unwrap()).unwrap();
                assert_eq!(written, again);
            }
        }
    }
    one::<WorkerRequest>(bytes);
    one::<WorkerResponse>(bytes);
    one::<WorkerReport>(bytes);
    one::<ReportAck>(bytes);
    one::<WorkerInventory>(bytes);
    one::<EndReport>(bytes);
    one::<FrameBatch>(bytes);
    one::<FrameBatchAck>(bytes);
    one::<RenewRequest>(bytes);
    one::<Renewals>(bytes);
    one::<()>(bytes);
}

/// No bytes make a node fail, or cost it memory that nobody has sent.
#[test]
fn any_bytes_are_refused_or_read() {
    let body = vec(any::<u8>(), 0..200);
    run(2_000, &body, |mut bytes| {
        read_as_everything(&bytes);
        bytes.insert(0, CONTRACT);
        read_as_everything(&bytes);
    });
}

/// Good messages with some bytes changed: the likeliest to get through.
#[test]
fn damaged_messages_are_refused_or_are_others() {
    let damage = vec((any::<prop::sample::Index>(), any::<u8>()), 1..4);
    let damaged = |bytes: Vec<u8>, damage: Vec<(prop::sample::Index, u8)>| {
        let mut bytes = bytes;
        for (at, to) in damage {
            let place = at.index(bytes.len());
            bytes[place] = to;
        }
        read_as_everything(&bytes);
    };
    let written = prop_oneof![
        WorkerRequest::any().prop_map(|message| encode(&message).unwrap()),
        WorkerResponse::any().prop_map(|message| encode(&message).unwrap()),
        WorkerReport::any().prop_map(|message| encode(&message).unwrap()),
        FrameBatchAck::any().prop_map(|message| encode(&message).unwrap()),
        frames().prop_map(|message| encode(&message).unwrap()),
        renew().prop_map(|message| encode(&message).unwrap()),
        renewals().prop_map(|message| encode(&message).unwrap()),
    ];
    run(2_000, &(written, damage), |(bytes, damage)| damaged(bytes, damage));
}

/// A list that says it has more entries than anybody could have sent reserves no room for them.
#[test]
fn a_lie_about_a_length_costs_nothing() {
    const MOST: &[u8] = &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    const MANY: &[u8] = &[0xff, 0xff, 0xff, 0x07];
    let before: [(&str, &[u8]); 4] = [
        ("the attempts of a renewal", &[CONTRACT, 1, 1]),
        ("the streams of a post", &[CONTRACT, 1, 1, 1]),
        ("the frames of a post", &[CONTRACT, 1, 1, 1, 0]),
        ("the answers to a renewal", &[CONTRACT]),
    ];
    for (what, start) in before {
        for length in [MOST, MANY] {
            for rest in [0, 1, 40] {
                let mut bytes = start.to_vec();
                bytes.extend_from_slice(length);
                bytes.extend(std::iter::repeat_n(1, rest));
                read_as_everything(&bytes);
                assert!(read::<RenewRequest>(&bytes).is_err(), "{what}");
                assert!(read::<FrameBatch>(&bytes).is_err(), "{what}");
                assert!(read::<Renewals>(&bytes).is_err(), "{what}");
            }
        }
    }
}

/// Neither side lets through what no service takes; the reader does not even look at it.
#[test]
fn what_is_too_large_is_refused_on_both_sides() {
    let frames = vec![vec![7; MESSAGE_BYTES_MAX / 2]; 3];
    let (job, worker, boot) = (JobId(1), NodeId(2), BootId(3));
    let post = FrameBatch { job, worker, boot, open: Vec::new(), frames };
    let refused = encode(&post).unwrap_err();
    assert_eq!(refused.name(), "too_large");
    let text = refused.to_string();
    assert!(text.contains("post of statistics") && text.contains("at most"), "{text}");
    let bytes = vec![CONTRACT; MESSAGE_BYTES_MAX + 1];
    ALLOCATED.set(0);
    assert_eq!(decode::<WorkerRequest>(&bytes).unwrap_err().name(), "too_large");
    assert_eq!(ALLOCATED.get(), 0);
    let most = vec![CONTRACT; MESSAGE_BYTES_MAX];
    assert_eq!(decode::<WorkerRequest>(&most).unwrap_err().name(), "malformed");
}

/// [`ReportAck`] as a later program has it: one more answer.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum LaterTold {
    Taken,
    NotOwner { owner: Option<NodeId> },
    UnknownJob,
    Settled,
    ComeBack { after_ms: u64 },
}

impl Message for LaterTold {
    const NAME: &'static str = "a later program's answer";

    fn since(&self) -> u8 {
        match self {
            Self::Taken | Self::NotOwner { .. } | Self::UnknownJob | Self::Settled => CONTRACT,
            Self::ComeBack { .. } => CONTRACT + 1,
        }
    }
}

/// CORE-107: a later program says to this one whatever both know; what this one cannot know has a
/// name.
#[test]
fn a_later_programs_words_are_read_as_far_as_they_are_known() {
    let owner = Some(NodeId(7));
    let known = [
        (LaterTold::Taken, ReportAck::Taken),
        (LaterTold::NotOwner { owner }, ReportAck::NotOwner { owner }),
        (LaterTold::UnknownJob, ReportAck::UnknownJob),
        (LaterTold::Settled, ReportAck::Settled),
    ];
    for (said, heard) in known {
        assert_eq!(decode::<ReportAck>(&encode(&said).unwrap()), Ok(heard));
    }
    let new = encode(&LaterTold::ComeBack { after_ms: 5 }).unwrap();
    assert_eq!(decode::<ReportAck>(&new).unwrap_err().name(), "future_version");
    // One that forgot to say so is refused as well, but nobody can say why.
    let mut forgot = new;
    forgot[0] = CONTRACT;
    assert_eq!(decode::<ReportAck>(&forgot).unwrap_err().name(), "malformed");
}
