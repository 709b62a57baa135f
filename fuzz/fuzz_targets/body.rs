#![no_main]

#[allow(dead_code, reason = "one of several targets")]
#[path = "../../crates/server/tests/fuzz/checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    checks::body(bytes);
});
