#![no_main]

#[allow(dead_code, reason = "one of several targets")]
#[path = "../../crates/journal/tests/it/fuzz/checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    checks::chunk(bytes);
});
