//! Whatever a member or a client may send to a ledger node, from bytes that nobody has written on
//! purpose.
//!
//! The first byte chooses the decoder. What is decoded is sealed again and must mean the same; a
//! proposal is also applied, because the state machine has to be total.

#![no_main]

use ledger_state::{Command, Limits, Proposal, State};
use fence::GroupId;
use ledger::messages;
use ledger::wire::{seal, unseal};
use libfuzzer_sys::fuzz_target;

fn apply(proposal: Proposal) {
    let group = GroupId { cluster: 1, generation: 1 };
    let mut state = State::new(group, Limits::default());
    let open = Proposal { command: Command::OpenSession, ..proposal.clone() };
    let repeated = proposal.clone();
    state.apply(1, &[open]);
    state.apply(2, &[proposal]);
    state.apply(3, &[repeated]);
    if let Err(violation) = state.check() {
        panic!("{violation:?}");
    }
    let decoded = State::decode(&state.encode()).expect("a state reads what it wrote");
    assert_eq!(decoded.digest(), state.digest());
}

fuzz_target!(|input: &[u8]| {
    let Some((choice, bytes)) = input.split_first() else { return };
    match choice % 7 {
        0 => {
            if let Ok(request) = messages::append(bytes) {
                let again = seal(&request).expect("what was read can be written");
                assert!(messages::append(&again).is_ok());
            }
        }
        1 => drop(messages::ballot(bytes)),
        2 => drop(messages::snapshot_head(bytes)),
        3 => drop(messages::pre_vote(bytes)),
        4 => {
            if let Ok(proposal) = messages::proposal(bytes) {
                let again = seal(&proposal).expect("what was read can be written");
                assert_eq!(unseal::<Proposal>(&again).expect("reads what it wrote"), proposal);
                apply(proposal);
            }
        }
        5 => {
            if let Ok(job) = messages::job(bytes) {
                let again = seal(&job).expect("what was read can be written");
                assert_eq!(messages::job(&again).expect("reads what it wrote"), job);
            }
        }
        _ => drop(messages::limits(bytes)),
    }
});
