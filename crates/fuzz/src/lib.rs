//! Fuzzing as an ordinary test, with nothing but std: the kept corpus of a target (`fuzz/corpus/<target>`) is replayed,
//! and then mutated from a seed, so that every run on every machine does the same. A target reduces each input to a
//! number of its choosing; an input that leads to a number not seen before is mutated further. That is coverage by
//! hand: cheaper than the compiler's, and enough to walk past a parser's first refusal. The compiler's is for
//! `make fuzz`, which uses the same targets and adds to the same corpus.
//!
//! `LEASEHOLD_FUZZ` multiplies the length of a run, `LEASEHOLD_FUZZ_SEED` sets where it starts.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Mutations of one target in an ordinary run.
const EXECUTIONS: u64 = 25_000;
/// Inputs that are mutated further, at most.
const POOL_MAX: usize = 2_000;
/// No longer than a body may be, and a bit.
const INPUT_MAX: usize = 70_000;

/// Bytes that parsers stumble over.
const BYTES: [u8; 24] = *b"\0\x01\x7f\x80\xff\t\n\r \"%&+,-./09:;=\\{";

/// The function under test: reads an input, checks its promises, and returns a number for the outcome.
pub type Target = fn(&[u8]) -> u64;

/// Any value as such a number.
pub fn outcome(value: &impl std::fmt::Debug) -> u64 {
    let mut hasher = DefaultHasher::new();
    format!("{value:?}").hash(&mut hasher);
    hasher.finish()
}

/// The kept inputs of a target, in the order of their names.
pub fn corpus(name: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let entries = std::fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a directory can be read").path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))).collect()
}

/// Replays and mutates. `words` are inserted here and there; they should be the vocabulary of the target's language.
/// Panics as the target does, after printing the input.
pub fn run(name: &str, words: &[&str], target: Target) {
    let began = Instant::now();
    let pool = corpus(name);
    assert!(!pool.is_empty(), "{name} has no corpus");
    let kept = pool.len();
    let executions = EXECUTIONS * from_environment("LEASEHOLD_FUZZ").unwrap_or(1);
    let outcomes = explore(name, pool, words, executions, target);
    let took_s = began.elapsed().as_secs_f64();
    // Printed past the test harness, which swallows the output of a passing test; in one piece, as tests run side by
    // side.
    let line = format!(
        "fuzz: {name}: {kept} kept inputs, {executions} mutations, {outcomes} different outcomes, {took_s:.1} s\n"
    );
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// How many different outcomes there were.
fn explore(name: &str, mut pool: Vec<Vec<u8>>, words: &[&str], executions: u64, target: Target) -> usize {
    let mut seen: BTreeSet<u64> = pool.iter().map(|input| execute(name, target, input)).collect();
    let mut random = Random::new(name);
    for _ in 0..executions {
        let input = random.mutation(&pool, words);
        if seen.insert(execute(name, target, &input)) && pool.len() < POOL_MAX {
            pool.push(input);
        }
    }
    seen.len()
}

fn execute(name: &str, target: Target, input: &[u8]) -> u64 {
    catch_unwind(AssertUnwindSafe(|| target(input))).unwrap_or_else(|panic| {
        eprintln!("fuzz: {name} failed on b\"{}\"", input.escape_ascii());
        resume_unwind(panic)
    })
}

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|error| panic!("{name}={text}: {error}")))
}

/// `SplitMix64`.
struct Random(u64);

impl Random {
    /// Every target goes its own way.
    fn new(name: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        (name, from_environment("LEASEHOLD_FUZZ_SEED")).hash(&mut hasher);
        Random(hasher.finish())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// From 0 to `below`, which is not reached. 0 for 0.
    fn below(&mut self, below: usize) -> usize {
        usize::try_from(self.next() % below.max(1) as u64).expect("it is below a usize")
    }

    fn of<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }

    /// One input of the pool with a few changes. Recent inputs are picked as often as all the others.
    fn mutation(&mut self, pool: &[Vec<u8>], words: &[&str]) -> Vec<u8> {
        let recent = pool.len().saturating_sub(32);
        let from = if self.below(2) == 0 { &pool[recent..] } else { pool };
        let mut input = self.of(from).clone();
        for _ in 0..=self.below(4) {
            self.change(&mut input, pool, words);
        }
        input.truncate(INPUT_MAX);
        input
    }

    fn change(&mut self, input: &mut Vec<u8>, pool: &[Vec<u8>], words: &[&str]) {
        let at = self.below(input.len() + 1);
        let end = at + self.below((input.len() - at).min(16) + 1);
        match self.below(10) {
            0 if at < input.len() => input[at] ^= 1 << self.below(8),
            1 if at < input.len() => input[at] = *self.of(&BYTES),
            2 if at < input.len() => input[at] = u8::try_from(self.below(256)).expect("a byte"),
            3 => input.insert(at, *self.of(&BYTES)),
            4 => _ = input.drain(at..end),
            5 => input.truncate(at),
            6 => {
                let copy = input[at..end].to_vec();
                let times = 1 + self.below(3);
                input.splice(at..at, copy.repeat(times));
            }
            7 => {
                let other = self.of(pool);
                let from = self.below(other.len() + 1);
                input.splice(at.., other[from..].iter().copied());
            }
            // A number in place of an existing one.
            8 => {
                let number = *self.of(&[0, 1, u64::from(u32::MAX), i64::MAX.cast_unsigned(), u64::MAX, 1 << 53]);
                let bytes = if self.below(2) == 0 { number.to_le_bytes().to_vec() } else { number.to_string().into() };
                input.splice(at..end, bytes);
            }
            _ if !words.is_empty() => {
                let word = *self.of(words);
                input.splice(at..if self.below(2) == 0 { at } else { end }, word.bytes());
            }
            _ => input.push(*self.of(&BYTES)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_inputs() {
        let pool = [b"{\"a\":1}".to_vec(), b"0".to_vec()];
        let inputs = || {
            let mut random = Random::new("x");
            (0..1_000).map(|_| random.mutation(&pool, &["word"])).collect::<Vec<_>>()
        };
        assert_eq!(inputs(), inputs());
        let different: BTreeSet<_> = inputs().into_iter().collect();
        assert!(different.len() > 500, "{}", different.len());
    }

    #[test]
    fn new_outcomes_lead_further() {
        // Five letters in a row are out of reach for blind changes, and within reach of changes that build on others.
        fn depth(input: &[u8]) -> u64 {
            input.iter().zip(b"%&+,-").take_while(|(a, b)| a == b).count() as u64
        }
        assert_eq!(explore("x", vec![b"query".to_vec()], &[], EXECUTIONS, depth), 6);
    }
}
