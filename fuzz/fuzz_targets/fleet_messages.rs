//! Everything that nodes and clients of a fleet say to each other, from bytes that nobody has
//! written on purpose.
//!
//! The first byte chooses the message. What is read costs no more memory than its bytes are worth,
//! and is written and read again as the same. A question to a worker is also put to the worker's
//! machine, which has to be total: whatever a manager says, a worker answers and goes on.

#![no_main]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use control::codec::{self, Message, Renewals};
use control::message::{
    WorkerResponse, WorkerRequest, EndReport, FrameBatch, FrameBatchAck, WorkerInventory, RenewRequest, WorkerReport, ReportAck,
};
use control::worker::{Event, Settings, Worker};
use fence::{BootId, Moment, NodeId};
use fleet::bundle::Bundle;
use fleet::wire::{blob_in, job_from, proto};
use libfuzzer_sys::fuzz_target;

/// Adds up what is asked for.
struct Counting;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Relaxed);
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATED.fetch_add(size.saturating_sub(layout.size()), Relaxed);
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

fn within<T>(bytes: &[u8], times: usize, read: impl FnOnce() -> T) -> T {
    ALLOCATED.store(0, Relaxed);
    let read = read();
    let (allocated, limit) = (ALLOCATED.load(Relaxed), times * bytes.len() + 4096);
    assert!(allocated <= limit, "{allocated} bytes for a message of {}", bytes.len());
    read
}

fn sealed<M: Message>(bytes: &[u8]) -> Option<M> {
    let message: M = within(bytes, 96, || codec::decode(bytes)).ok()?;
    let written = codec::encode(&message).expect("what was read can be written");
    let again: M = codec::decode(&written).expect("reads what it wrote");
    // Bytes again, because a rate may be no number, which is not equal to itself.
    assert_eq!(codec::encode(&again).expect("written once already"), written);
    Some(message)
}

fn plain<M: prost::Message + Default + PartialEq>(bytes: &[u8]) -> Option<M> {
    let message = within(bytes, 512, || M::decode(bytes)).ok()?;
    let written = message.encode_to_vec();
    let again = M::decode(&written[..]).expect("reads what it wrote");
    assert_eq!(again.encode_to_vec(), written);
    Some(message)
}

/// A worker that is asked all these, each with its length in front, and has a minute to think of
/// them then.
fn put(mut bytes: &[u8]) {
    let settings = Settings::new(NodeId(7), BootId(6), 9, 2);
    let recovered = Worker::recover(settings, Vec::new(), Vec::new(), Moment::default());
    let (mut worker, _) = recovered.expect("these settings work");
    let mut second = 0;
    while let Some((length, rest)) = bytes.split_first() {
        let (message, rest) = rest.split_at(rest.len().min(usize::from(*length)));
        bytes = rest;
        second += 1;
        if let Some(ask) = sealed::<WorkerRequest>(message) {
            let now = Moment::since_boot(Duration::from_secs(second));
            drop(worker.step(Event::Asked { id: second, from: NodeId(1), ask }, now));
        }
    }
    drop(worker.step(Event::Tick, Moment::since_boot(Duration::from_secs(second + 60))));
}

fuzz_target!(|input: &[u8]| {
    let Some((choice, bytes)) = input.split_first() else { return };
    match choice % 32 {
        0..=5 => put(bytes),
        6 => drop(sealed::<WorkerResponse>(bytes)),
        7 => drop(sealed::<WorkerReport>(bytes)),
        8 => drop(sealed::<ReportAck>(bytes)),
        9 => drop(sealed::<WorkerInventory>(bytes)),
        10 => drop(sealed::<EndReport>(bytes)),
        11 => drop(sealed::<FrameBatch>(bytes)),
        12 => drop(sealed::<FrameBatchAck>(bytes)),
        13 => drop(sealed::<RenewRequest>(bytes)),
        14 => drop(sealed::<Renewals>(bytes)),
        15 => {
            // A list that claims as many workflows as there are bytes left is given room for them.
            if let Ok(bundle) = within(bytes, 512, || Bundle::decode(bytes)) {
                let written = bundle.encode().expect("what was read can be written");
                let again = Bundle::decode(&written).expect("reads what it wrote");
                assert_eq!(again.encode().expect("written once already"), written);
            }
        }
        16 => drop(plain::<proto::MissingRequest>(bytes)),
        17 => {
            if let Some(chunk) = plain::<proto::Chunk>(bytes) {
                drop(chunk.blob.as_ref().map(blob_in));
            }
        }
        18 => drop(plain::<proto::SubmitRequest>(bytes)),
        19 => drop(plain::<proto::SubmitReply>(bytes)),
        20 => {
            if let Some(request) = plain::<proto::CancelRequest>(bytes) {
                drop(job_from(&request.job));
            }
        }
        21 => drop(plain::<proto::JobStatus>(bytes)),
        22 => drop(plain::<proto::ListReply>(bytes)),
        23 => drop(plain::<proto::SteerRequest>(bytes)),
        24 => drop(plain::<proto::WatchRequest>(bytes)),
        25 => drop(plain::<proto::LogsReply>(bytes)),
        26 => {
            drop(plain::<proto::FleetReply>(bytes));
            drop(plain::<proto::ChangeManagersRequest>(bytes));
            drop(plain::<proto::ManagersReply>(bytes));
        }
        27 => drop(plain::<proto::Checkpoint>(bytes)),
        28 => drop(plain::<proto::PromiseReply>(bytes)),
        29 => drop(plain::<proto::EnrolRequest>(bytes)),
        30 => drop(plain::<proto::EnrolReply>(bytes)),
        _ => drop(plain::<proto::Envelope>(bytes)),
    }
});
