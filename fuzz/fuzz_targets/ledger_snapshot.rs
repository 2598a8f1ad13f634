//! A snapshot file, and the state inside of one, from bytes that nobody has written on purpose.
//!
//! The checksum keeps almost all of them out, so every other input goes to the decoder behind it.

#![no_main]

use ledger_state::State;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((choice, bytes)) = input.split_first() else { return };
    if choice % 2 == 0 {
        drop(ledger::store::verify_snapshot(bytes));
        return;
    }
    if let Ok(state) = State::decode(bytes) {
        // It may be nonsense, which `check` says; it may not panic.
        let _ = state.check();
        let again = State::decode(&state.encode()).expect("a state reads what it wrote");
        assert_eq!(again.digest(), state.digest());
    }
});
