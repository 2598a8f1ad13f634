//! Messages that must not be taken: foreign, misdirected, of the future, broken, too large.

use bytes::Bytes;
use fence::{GroupId, NodeId};
use ledger::types::DiskId;
use ledger::wire::proto::change_members_request::Change;
use ledger::wire::proto::ledger_client::LedgerClient;
use ledger::wire::proto::{
    ChangeMembersRequest, GetBlobRequest, Named, PreVoteRequest, ProposeRequest, Sealed,
    StatusRequest, SubmitRequest,
};
use ledger::wire::{End, Header, WIRE_VERSION, refusal_name, seal};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use crate::group::harness::*;

async fn client(group: &Group) -> LedgerClient<Channel> {
    let uri = format!("http://{}", group.places[0].address);
    LedgerClient::new(Endpoint::from_shared(uri).unwrap().connect().await.unwrap())
        .max_encoding_message_size(64 << 20)
}

fn header(group: &Group) -> Header {
    let status = group.node(0).status();
    let receiver = End { node: status.node, disk: status.disk };
    Header { group: status.group.unwrap(), sender: receiver, receiver }
}

fn name<T: std::fmt::Debug>(answer: Result<T, Status>) -> String {
    let status = answer.unwrap_err();
    refusal_name(&status).map_or_else(|| format!("{:?}", status.code()), ToOwned::to_owned)
}

/// LEDG-117: every message is for one group, one node and one disk.
#[tokio::test(flavor = "multi_thread")]
async fn messages_for_others_are_refused_by_name() {
    let group = Group::start(1).await;
    let mut client = client(&group).await;
    type Wrong = fn(&mut Header);
    let cases: [(&str, Wrong); 4] = [
        ("foreign_group", |h| h.group = GroupId { cluster: h.group.cluster ^ 1, ..h.group }),
        ("foreign_group", |h| h.group.generation += 1),
        ("wrong_receiver", |h| h.receiver.node = NodeId(5)),
        ("wrong_disk", |h| h.receiver.disk = DiskId(h.receiver.disk.0 ^ 1)),
    ];
    for (expected, change) in cases {
        let mut wrong = header(&group);
        change(&mut wrong);
        let header = Some(wrong.to_wire());
        // Whatever is inside: who it is for comes first.
        let sealed = seal(&(None::<ledger::types::LogId>, None::<ledger::types::LogId>)).unwrap();
        let pre_vote = PreVoteRequest { header: header.clone(), sealed, voters_digest: 0 };
        assert_eq!(name(client.pre_vote(pre_vote).await), expected);
        let get = GetBlobRequest { header, hash: vec![0; 32].into(), size: 1 };
        assert_eq!(name(client.get_blob(get).await), expected);
    }
    let refusals = group.node(0).metrics().refusals.get();
    assert_eq!(refusals["foreign_group"], 4);

    let mut stranger = header(&group);
    stranger.sender.node = NodeId(99);
    let get =
        GetBlobRequest { header: Some(stranger.to_wire()), hash: vec![0; 32].into(), size: 1 };
    assert_eq!(name(client.get_blob(get.clone()).await), "not_a_member");
    let mut other_disk = header(&group);
    other_disk.sender.disk = DiskId(1);
    let get = GetBlobRequest { header: Some(other_disk.to_wire()), ..get };
    assert_eq!(name(client.get_blob(get).await), "disk_not_admitted");
}

/// Bad input: future versions, garbage, lies about length and oversize are refused, and the node
/// goes on.
#[tokio::test(flavor = "multi_thread")]
async fn broken_messages_are_refused_by_name() {
    let group = Group::start(1).await;
    let mut client = client(&group).await;
    let right = Some(header(&group).to_wire());
    let garbage: [(&str, &[u8]); 4] = [
        ("malformed", b""),
        ("future_version", &[WIRE_VERSION + 1, 0, 0]),
        ("malformed", &[WIRE_VERSION, 0xff, 0xff, 0xff]),
        ("malformed", &[WIRE_VERSION]),
    ];
    for (expected, bytes) in garbage {
        let sealed =
            Sealed { header: right.clone(), sealed: Bytes::from_static(bytes), silent: Vec::new() };
        assert_eq!(name(client.append(sealed.clone()).await), expected, "append {bytes:?}");
        assert_eq!(name(client.vote(sealed.clone()).await), expected, "vote {bytes:?}");
        assert_eq!(name(client.welcome(sealed.clone()).await), expected, "welcome {bytes:?}");
        let propose =
            ProposeRequest { header: right.clone(), sealed: sealed.sealed, within_ms: 1_000 };
        assert_eq!(name(client.propose(propose).await), expected, "propose {bytes:?}");
    }
    let headless =
        Sealed { header: None, sealed: Bytes::from_static(&[WIRE_VERSION]), silent: Vec::new() };
    assert_eq!(name(client.append(headless).await), "malformed");

    let huge =
        Sealed { header: right, sealed: vec![WIRE_VERSION; 9 << 20].into(), silent: Vec::new() };
    let refused = client.append(huge).await.unwrap_err();
    assert_eq!(refused.code(), Code::OutOfRange, "{refused:?}");

    let status = client.status(StatusRequest {}).await.unwrap().into_inner();
    assert!(status.leads && status.failed.is_empty());
    create(group.node(0), 1).await;
}

/// What a message says of its sender must agree with the certificate; and a certificate that is no
/// member's, of a manager that was never admitted or was removed, changes no members and submits
/// nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_speaks_for_its_own_node_and_only_as_a_member() {
    let group = Group::start(1).await;
    let own = group.node(0).status().node;
    let change = || ChangeMembersRequest {
        change: Some(Change::Remove(Named { node: vec![9; 16].into() })),
        within_ms: 1_000,
        forwarded: true,
    };
    let submit = || SubmitRequest { sealed: Bytes::from_static(&[WIRE_VERSION]), within_ms: 1_000 };
    let get = || GetBlobRequest {
        header: Some(header(&group).to_wire()),
        hash: vec![0; 32].into(),
        size: 1,
    };

    group.places[0].switch.certify(Some(NodeId(99)));
    let mut stranger = client(&group).await;
    assert_eq!(name(stranger.get_blob(get()).await), "foreign_sender");
    let sealed = Sealed {
        header: get().header,
        sealed: Bytes::from_static(&[WIRE_VERSION]),
        silent: Vec::new(),
    };
    assert_eq!(name(stranger.append(sealed.clone()).await), "foreign_sender");
    assert_eq!(name(stranger.vote(sealed).await), "foreign_sender");
    assert_eq!(name(stranger.change_members(change()).await), "not_a_member");
    assert_eq!(name(stranger.submit(submit()).await), "not_a_member");
    // Who is there may be asked: bootstrap and admission begin with it.
    stranger.status(StatusRequest {}).await.unwrap();
    let refusals = group.node(0).metrics().refusals.get();
    assert_eq!((refusals["foreign_sender"], refusals["not_a_member"]), (3, 2));

    group.places[0].switch.certify(Some(own));
    let mut member = client(&group).await;
    assert_eq!(name(member.get_blob(get()).await), "NotFound");
    assert_eq!(name(member.submit(submit()).await), "malformed", "it is looked at");
    member.change_members(change()).await.unwrap();
}
