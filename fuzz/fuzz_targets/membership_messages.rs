//! Everything that another node or an operator may send to the membership service, and what is read
//! from its answers.
//!
//! The first byte chooses the message. What passes the checks is written and read again, and must
//! mean the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use node::wire::{self, proto};
use prost::Message;

fn introduction(message: Option<proto::Introduction>) {
    if let Ok(introduction) = wire::introduction_in(message) {
        let again = wire::introduction_in(Some(wire::introduction_out(&introduction)));
        assert_eq!(again, Ok(introduction));
    }
}

fn record(message: proto::Record) {
    if let Ok(record) = wire::record_in(message) {
        assert_eq!(wire::record_in(wire::record_out(&record)), Ok(record));
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((choice, bytes)) = input.split_first() else { return };
    match choice % 8 {
        0 => {
            if let Ok(request) = proto::HelloRequest::decode(bytes) {
                introduction(request.from);
            }
        }
        1 => {
            if let Ok(reply) = proto::HelloReply::decode(bytes) {
                introduction(reply.from);
            }
        }
        2 => {
            if let Ok(part) = proto::StatePart::decode(bytes) {
                introduction(part.introduction);
                part.from.into_iter().chain(part.members).for_each(record);
            }
        }
        3 => {
            if let Ok(part) = proto::MembersPart::decode(bytes) {
                let mut reading = node::client::Reading::default();
                let _ = reading.take(part.clone());
                let _ = reading.take(part);
            }
        }
        4 => {
            if let Ok(request) = proto::CompareRequest::decode(bytes) {
                introduction(request.introduction);
                request.from.into_iter().for_each(record);
                let _ = wire::digest_in(request.digest);
            }
        }
        5 => {
            if let Ok(reply) = proto::CompareReply::decode(bytes) {
                introduction(reply.introduction);
                reply.from.into_iter().for_each(record);
            }
        }
        6 => drop(proto::MembersRequest::decode(bytes)),
        _ => drop(proto::KeysRequest::decode(bytes)),
    }
});
