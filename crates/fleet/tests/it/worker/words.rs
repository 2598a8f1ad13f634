//! What a worker cannot read: refused by name over the wire, and it goes on as if nothing had been
//! said.

use std::time::Duration;

use bytes::Bytes;
use control::codec::CONTRACT;
use control::message::{WorkerRequest, WorkerResponse};
use fleet::wire::proto::Envelope;
use fleet::wire::{MESSAGE_BYTES_MAX, is_too_new, seal};
use ledger::wire::refusal_name;
use tonic::Code;

use crate::worker::harness::Fleet;

/// ARCH-151, CORE-105: a later manager's words, noise and what is too large have a name each.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_worker_cannot_read_is_refused_by_name() {
    let fleet = Fleet::start().await;
    let good = seal(&WorkerRequest::Inspect { job: None }).unwrap().sealed.to_vec();
    let changed = |to: u8| {
        let mut bytes = good.clone();
        bytes[0] = to;
        bytes
    };
    let cases: [(&str, Vec<u8>, Code); 6] = [
        ("future_version", changed(CONTRACT + 1), Code::FailedPrecondition),
        ("future_version", vec![CONTRACT + 1, 250, 1, 2, 3], Code::FailedPrecondition),
        ("malformed", Vec::new(), Code::InvalidArgument),
        ("malformed", changed(0), Code::InvalidArgument),
        ("malformed", vec![CONTRACT, 250], Code::InvalidArgument),
        ("malformed", good[..good.len() - 1].to_vec(), Code::InvalidArgument),
    ];
    for (name, bytes, code) in cases {
        let status = fleet
            .worker_control()
            .call(Envelope { sealed: bytes.clone().into() })
            .await
            .unwrap_err();
        assert_eq!(refusal_name(&status), Some(name), "{bytes:?}: {status:?}");
        assert_eq!(status.code(), code, "{status:?}");
        assert!(status.message().contains("an owner's question"), "{status:?}");
        assert_eq!(is_too_new(&status), name == "future_version");
    }
    let huge = Envelope { sealed: Bytes::from(vec![CONTRACT; MESSAGE_BYTES_MAX + 1]) };
    let mut crew = fleet.worker_control().max_encoding_message_size(usize::MAX);
    let sent = tokio::time::timeout(Duration::from_secs(30), crew.call(huge)).await;
    let status = sent.unwrap().unwrap_err();
    assert_eq!(status.code(), Code::OutOfRange, "{status:?}");
    assert!(status.message().contains("too large"), "{status:?}");

    let answer = fleet.ask(&WorkerRequest::Inspect { job: None }).await;
    let WorkerResponse::Holding(holdings) = answer else { panic!("{answer:?}") };
    assert_eq!((holdings.cores, holdings.cores_free), (2, 2));
}
