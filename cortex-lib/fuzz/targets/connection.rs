//! One connection to the endpoint, over which any bytes come.
#![no_main]

use std::cell::RefCell;

use cortex_fuzz::connection::Connections;
use libfuzzer_sys::fuzz_target;

thread_local! {
    static HARNESS: RefCell<Connections> = RefCell::default();
}

fuzz_target!(|input: &[u8]| {
    let outcome = HARNESS.with_borrow_mut(|harness| harness.run(input));
    assert_eq!(outcome, Ok(()));
});
