//! Every message of `fleet.proto`, with every field filled in. Structs are written out and matches
//! have no default, so a field or a kind that is added has to be added here; a message that is
//! missing is named by the test.

use std::collections::BTreeSet;
use std::fmt::Debug;

use bytes::Bytes;
use fleet::bundle::Bundle;
use fleet::wire::proto::change_managers_request::Step;
use fleet::wire::proto::{self, steer_request, submit_reply};
use fleet::wire::{blob_in, blob_out, job_bytes, job_from};
use proptest::collection::vec;
use proptest::prelude::*;
use prost::Message;

use crate::wire::allocations::counted;

/// A field that no version has had so far: number 2000, a text.
const UNKNOWN: &[u8] = &[0x82, 0x7d, 0x03, b'n', b'e', b'w'];

fn text(text: &str) -> String {
    text.to_owned()
}

fn job() -> Bytes {
    Bytes::from_static(b"sixteen bytes id")
}

fn blob() -> proto::BlobRef {
    proto::BlobRef { hash: Bytes::from_static(&[7; 32]), bytes: 300 }
}

fn counters() -> proto::Counters {
    proto::Counters { issued: 1, completed: 2, failed: 3, iterations: 4, dropped: 5 }
}

fn addendum() -> proto::Addendum {
    proto::Addendum {
        at_unix_ms: 1,
        worker: text("w"),
        workflow: 2,
        shard: 3,
        attempt: 4,
        added: Some(counters()),
        sent: 5,
        certain: true,
    }
}

fn status() -> proto::JobStatus {
    let shard = proto::ShardStatus { shard: 1, attempt: 2, state: 3, worker: text("w") };
    let workflow = proto::WorkflowStatus {
        name: text("n"),
        state: proto::WorkflowState::Running.into(),
        shards: vec![shard],
        need: text("w"),
        vus_now: Some(3),
        per_second_now: Some(0.5),
    };
    proto::JobStatus {
        job: job(),
        name: text("name"),
        state: proto::JobState::Ended.into(),
        outcome: proto::Outcome::Completed.into(),
        detail: text("detail"),
        owner: text("owner"),
        age_ms: 1,
        workflows: vec![workflow],
        timeline: vec![proto::Note { at_ms: 2, text: text("note") }],
        counters: Some(counters()),
        has_result: true,
        ran_ms: 3,
        live: true,
        submitted_by: text("client"),
        cancelled_by: text("operator"),
        addenda: vec![addendum()],
        addenda_more: 6,
        unheard: 7,
    }
}

fn voters() -> proto::Voters {
    proto::Voters { term: 3, index: 4 }
}

fn checkpoint() -> proto::Checkpoint {
    let content = Bytes::from_static(b"c");
    proto::Checkpoint { job: job(), epoch: 1, number: 2, content, bytes: 1, voters: Some(voters()) }
}

fn fleet_node() -> proto::FleetNode {
    proto::FleetNode {
        node: text("n"),
        role: proto::NodeRole::Worker.into(),
        address: text("127.0.0.1:1"),
        state: proto::NodeState::Alive.into(),
        cores: 1,
        cores_free: 2,
        shards: 3,
        draining: true,
        jobs: 4,
        leads: true,
        routing: proto::Routing::Drain.into(),
        why: text("its breaker is open"),
    }
}

/// One message and everything that can be wrong with its bytes.
fn examine<M: Message + Default + PartialEq + Debug>(tested: &mut BTreeSet<String>, message: &M) {
    let name = std::any::type_name::<M>();
    tested.insert(name.rsplit("::").next().unwrap_or(name).to_owned());
    let bytes = message.encode_to_vec();
    assert_eq!(M::decode(&bytes[..]).as_ref(), Ok(message));
    // CORE-109: what is not there has its default, what nobody knows is passed over.
    assert_eq!(M::decode(&[][..]), Ok(M::default()));
    let mut later = bytes.clone();
    later.extend_from_slice(UNKNOWN);
    assert_eq!(M::decode(&later[..]).as_ref(), Ok(message));
    for cut in 0..bytes.len() {
        // Between two fields the rest is absent; within one, the message is refused.
        if let Err(error) = M::decode(&bytes[..cut]) {
            assert!(error.to_string().contains("failed to decode"), "{error}");
        }
    }
    let runner = ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() };
    let damage = (vec(any::<u8>(), 0..120), any::<prop::sample::Index>(), any::<u8>());
    proptest::test_runner::TestRunner::new(runner)
        .run(&damage, |(noise, at, to)| {
            let mut damaged = bytes.clone();
            if !damaged.is_empty() {
                let place = at.index(damaged.len());
                damaged[place] = to;
            }
            for bytes in [&noise, &damaged] {
                let (_, allocated) = counted(|| M::decode(&bytes[..]));
                // An entry of a list takes two bytes on the way and up to 400 in memory, where
                // lists double.
                let limit = 512 * bytes.len() + 4096;
                prop_assert!(allocated <= limit, "{allocated} bytes for {} of {name}", bytes.len());
            }
            Ok(())
        })
        .unwrap();
}

fn answers() -> Vec<submit_reply::Answer> {
    use submit_reply::{Accepted, Answer, Pending, Rejected, RetryLater};
    let answers = vec![
        Answer::Accepted(Accepted { job: job(), repeated: true }),
        Answer::Rejected(Rejected { kind: text("k"), reason: text("r") }),
        Answer::Pending(Pending { job: job() }),
        Answer::Retry(RetryLater { after_ms: 1, reason: text("r") }),
    ];
    let place = |answer: &Answer| match answer {
        Answer::Accepted(_) => 0,
        Answer::Rejected(_) => 1,
        Answer::Pending(_) => 2,
        Answer::Retry(_) => 3,
    };
    assert!(answers.iter().map(place).eq(0..4), "one of each");
    answers
}

fn wishes() -> Vec<steer_request::What> {
    use steer_request::{Scale, What};
    let scale = Scale { workflow: text("w"), value: 2.5 };
    let wishes =
        vec![What::Pause(true), What::Resume(true), What::Vus(scale.clone()), What::Rate(scale)];
    let place = |wish: &What| match wish {
        What::Pause(_) => 0,
        What::Resume(_) => 1,
        What::Vus(_) => 2,
        What::Rate(_) => 3,
    };
    assert!(wishes.iter().map(place).eq(0..4), "one of each");
    wishes
}

/// Those of clients.
fn of_jobs(tested: &mut BTreeSet<String>) {
    let t = tested;
    examine(t, &blob());
    examine(t, &proto::Chunk { blob: Some(blob()), content: Bytes::from_static(b"content") });
    examine(t, &proto::Envelope { sealed: Bytes::from_static(b"sealed") });
    examine(t, &proto::MissingRequest { blobs: vec![blob(), blob()] });
    examine(t, &proto::MissingReply { missing: vec![blob()] });
    examine(t, &proto::JobRequest { job: job() });
    let bundle = Some(blob());
    examine(t, &proto::SubmitRequest { key: text("k"), name: text("n"), bundle, age_ms: 9 });
    for answer in answers() {
        match &answer {
            submit_reply::Answer::Accepted(one) => examine(t, one),
            submit_reply::Answer::Rejected(one) => examine(t, one),
            submit_reply::Answer::Pending(one) => examine(t, one),
            submit_reply::Answer::Retry(one) => examine(t, one),
        }
        examine(t, &proto::SubmitReply { answer: Some(answer) });
    }
    let nonce = vec![7; 16].into();
    examine(t, &proto::CancelRequest { job: job(), reason: text("r"), now: true, nonce });
    let outcome = proto::Outcome::Partial.into();
    examine(t, &proto::CancelReply { outcome, already: true, now: true, within_ms: 5 });
    examine(t, &proto::StatusRequest { job: job() });
    let list = proto::ListRequest { limit: 1, ended: true, prefix: text("0a"), live: true };
    examine(t, &list);
    examine(t, &proto::ListReply { jobs: vec![status(), status()], more: 2 });
    examine(t, &status());
    examine(t, &counters());
    examine(t, &status().workflows[0]);
    examine(t, &status().workflows[0].shards[0]);
    examine(t, &status().timeline[0]);
    examine(t, &addendum());
    let request = proto::WatchRequest {
        job: job(),
        epoch: 1,
        seq: 2,
        window: 3,
        views: true,
        progress: true,
    };
    examine(t, &request);
    examine(t, &proto::WatchEvent { event: Bytes::from_static(b"event") });
    for what in wishes() {
        if let steer_request::What::Vus(scale) | steer_request::What::Rate(scale) = &what {
            examine(t, scale);
        }
        examine(t, &proto::SteerRequest { job: job(), what: Some(what) });
    }
    examine(t, &proto::SteerReply { said: text("s"), missed: vec![text("m")] });
    let log = proto::AttemptLog {
        workflow: text("w"),
        shard: 1,
        attempt: 2,
        worker: text("w"),
        status: proto::AttemptStatus::Stopped.into(),
        error: text("e"),
        text: text("t"),
        counters: Some(counters()),
    };
    examine(t, &log);
    examine(t, &proto::LogsReply { logs: vec![log] });
    examine(t, &proto::DrainRequest { node: text("n") });
    examine(t, &proto::DrainReply { said: text("s"), done: true });
    examine(t, &proto::FleetRequest {});
    examine(t, &fleet_node());
    examine(t, &proto::FleetReply { nodes: vec![fleet_node()], cores: 1, cores_free: 2 });
    examine(t, &proto::ManagersRequest {});
    let (node, address, state) = (text("n"), text("a"), proto::NodeState::Dead.into());
    let member = proto::LedgerMember { node, address, voter: true, state };
    examine(t, &member);
    let leader = text("l");
    let limits = proto::Limits { lease_ms: 1, keep_jobs_ms: 2, retries: 3 };
    examine(t, &limits);
    examine(
        t,
        &proto::ManagersReply {
            members: vec![member],
            leader,
            term: 3,
            changing: true,
            applied: 4,
            limits: Some(limits),
            node: text("n"),
        },
    );
    let limits = proto::SetLimits { lease_ms: Some(1), keep_jobs_ms: None, retries: Some(2) };
    examine(t, &limits);
    let steps = [
        Step::Admit(text("a")),
        Step::Promote(text("p")),
        Step::Remove(text("r")),
        Step::Limits(limits),
    ];
    for step in steps {
        examine(t, &proto::ChangeManagersRequest { step: Some(step) });
    }
    examine(t, &proto::ChangeManagersReply { node: text("n") });
}

/// Those of managers among themselves, and of recruits.
fn of_nodes(tested: &mut BTreeSet<String>) {
    let t = tested;
    examine(t, &checkpoint());
    examine(t, &proto::StoreCheckpointReply { kept: true });
    examine(t, &proto::PromiseRequest { job: job(), epoch: 1, voters: Some(voters()) });
    examine(t, &voters());
    examine(t, &proto::SettledRequest { voters: Some(voters()) });
    examine(t, &proto::SettledReply { jobs: vec![job(), job()] });
    let sealed = Some(proto::Envelope { sealed: Bytes::from_static(b"s") });
    examine(t, &proto::RelayRequest { kind: 2, worker: job(), sealed });
    examine(t, &proto::CountsRequest { jobs: vec![job(), job()] });
    let counts = proto::JobCounts { job: job(), counters: Some(counters()), waits_for: text("w") };
    examine(t, &counts);
    examine(t, &proto::CountsReply { counts: vec![counts] });
    examine(t, &proto::PromiseReply { newest: Some(checkpoint()), promised: 3, damaged: true });
    examine(t, &proto::EnrolRequest { public_key: Bytes::from_static(b"key"), cores: 4 });
    let reply = proto::EnrolReply {
        certificate: text("c"),
        ca: text("a"),
        gossip_key: Bytes::from_static(b"g"),
        node: job(),
        seeds: vec![text("127.0.0.1:1")],
    };
    examine(t, &reply);
    examine(t, &proto::GroupRequest {});
    let members = vec![job(), job()];
    examine(t, &proto::GroupReply { cluster: 7, generation: 1, members });
}

/// ARCH-150, ARCH-153: every message of the contract is read as it was written.
#[test]
fn every_message_of_the_contract_survives() {
    let mut tested = BTreeSet::new();
    of_jobs(&mut tested);
    of_nodes(&mut tested);
    let contract = include_str!("../../../../../proto/volley/fleet/v1/fleet.proto");
    let known = contract.lines().filter_map(|line| line.trim().strip_prefix("message "));
    let known = known.filter_map(|rest| rest.split([' ', '{']).next());
    assert_eq!(tested, known.map(ToOwned::to_owned).collect::<BTreeSet<_>>());
}

/// CORE-109: what must be there is named when it is not.
#[test]
fn ids_that_are_none_are_refused_with_their_length() {
    let id = job_from(&job()).unwrap();
    assert_eq!(job_bytes(id), job());
    assert_eq!(blob_out(&blob_in(&blob()).unwrap()), blob());
    for length in [0, 15, 17, 4000] {
        let refused = job_from(&vec![1; length]).unwrap_err();
        assert!(refused.message().contains(&format!("16 bytes, not {length}")), "{refused:?}");
        let hash = vec![1; length].into();
        let refused = blob_in(&proto::BlobRef { hash, bytes: 1 }).unwrap_err();
        assert!(refused.message().contains(&format!("32 bytes, not {length}")), "{refused:?}");
    }
}

/// A manager reads what a client has packed: noise and lies about lengths cost nothing.
#[test]
fn bytes_that_are_no_bundle_cost_no_more_than_they_are_worth() {
    let start = b"VBDL\x01";
    let runner = ProptestConfig { cases: 2_000, failure_persistence: None, ..Default::default() };
    proptest::test_runner::TestRunner::new(runner)
        .run(&vec(any::<u8>(), 0..300), |noise| {
            let whole = [&start[..], &noise[..]].concat();
            for bytes in [&noise, &whole] {
                let (read, allocated) = counted(|| Bundle::decode(bytes));
                prop_assert!(read.is_err());
                // A list that claims as many workflows as there are bytes left is given room for
                // them.
                let limit = 512 * bytes.len() + 4096;
                prop_assert!(allocated <= limit, "{allocated} bytes for {}", bytes.len());
            }
            Ok(())
        })
        .unwrap();
    // A name of 2^63 bytes; a manifest of 2^63 workflows.
    for lie in [&[0xff; 9][..], &[0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f][..]] {
        let (read, allocated) = counted(|| Bundle::decode(&[&start[..], lie].concat()));
        assert!(read.is_err() && allocated < 1024, "{allocated}");
    }
}
