//! Commands, called by each kind of caller with any arguments.
#![no_main]

use std::cell::RefCell;

use cortex_fuzz::arguments::Calls;
use libfuzzer_sys::fuzz_target;

thread_local! {
    static HARNESS: RefCell<Calls> = RefCell::default();
}

fuzz_target!(|input: &[u8]| {
    let outcome = HARNESS.with_borrow_mut(|harness| harness.run(input));
    assert_eq!(outcome, Ok(()));
});
