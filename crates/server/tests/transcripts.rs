//! The HTTP contract as numbered transcripts, one promise each, played against the real service over real sockets.
//! Every transcript has a service of its own whose clock is moved by hand, so nothing sleeps and every time is exact.
//!
//! ```text
//! ## P07 A borrow gets the lowest free position.        a number that stays, and the promise
//! @ max-ttl 60s                                         a setting of this service; the clock may be set, too
//! @ partitions one                                      it depends on what one partition counts
//! > POST /l/9f1c…/borrow as w1                          a request, in the background when it is named
//! > idempotency-key: k1                                 its headers
//! > {"ttl": 30, "wait": 5}                              its body; {x*4097} is an x 4097 times
//! ~ 4.9s                                                time passes
//! = w1 waits                                            nobody has answered it yet
//! x w1                                                  its client hangs up
//! < w1 200                                              the answer, here to a named request
//! < retry-after: 1                                      a header it has; `< absent: location` is one it has not
//! < {"lease":"<uuid a>",                                its body, to the byte; where it is cut into lines they are
//! <   "position":0}                                     indented. <uuid a> is one the service made up, from then on
//! <                                                     {a}; <text t> the same for any text. No line: no body
//! <^ {"lease":    <+ "position"    <- secret            or only how it begins, what is in it, and what is not
//! ! the store stalls | the store goes on | the service is down for 60s | the service shuts down
//! ```
//!
//! `TRANSCRIPTS=rewrite cargo test --test transcripts` writes the service's answer wherever it differs; the reader
//! judges whether that keeps the promise.

#[path = "transcripts/client.rs"]
mod client;
#[path = "transcripts/contract.rs"]
mod contract;
#[path = "transcripts/expect.rs"]
mod expect;
#[path = "transcripts/play.rs"]
mod play;
#[path = "transcripts/script.rs"]
mod script;
#[path = "transcripts/service.rs"]
mod service;
#[path = "transcripts/store.rs"]
mod store;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use script::{Step, Transcript, What};

/// Every file, and the letter its numbers begin with.
const FILES: [(&str, char); 9] = [
    ("common", 'C'),
    ("seeds", 'S'),
    ("pools", 'P'),
    ("claims", 'Q'),
    ("lock", 'L'),
    ("idempotency", 'I'),
    ("observe", 'O'),
    ("terraform", 'T'),
    ("fleetlock", 'F'),
];

/// Fewer than this, and some were lost.
const TRANSCRIPTS_MIN: usize = 355;

#[test]
fn common() {
    play_file("common");
}

#[test]
fn observe() {
    play_file("observe");
}

#[test]
fn terraform() {
    play_file("terraform");
}

#[test]
fn fleetlock() {
    play_file("fleetlock");
}

#[test]
fn seeds() {
    play_file("seeds");
}

#[test]
fn pools() {
    play_file("pools");
}

#[test]
fn claims() {
    play_file("claims");
}

#[test]
fn lock() {
    play_file("lock");
}

#[test]
fn idempotency() {
    play_file("idempotency");
}

#[test]
fn every_number_is_used_once_and_every_promise_is_stated() {
    let mut titles: BTreeMap<String, String> = BTreeMap::new();
    for (file, letter) in FILES {
        let (_, transcripts) = read(file);
        for Transcript { number, title, .. } in transcripts {
            assert!(number.starts_with(letter), "{number} is in {file}.txt, where numbers begin with {letter}");
            assert!(title.ends_with('.'), "{number} has no promise: {title:?}");
            let earlier = titles.insert(number.clone(), title.clone());
            assert_eq!(earlier, None, "{number} is used again for {title:?}");
        }
    }
    println!("transcripts: {} in {} files", titles.len(), FILES.len());
    assert!(titles.len() >= TRANSCRIPTS_MIN, "only {} transcripts are left", titles.len());
}

/// Statuses that the document lists and no transcript can bring about: they take a page, which is not text, a provider
/// to log in at, a cluster, or a stream, which does not end.
const SEEN_ELSEWHERE: [&str; 12] = [
    "callback",
    "cluster",
    "login",
    "tokenLogin",
    "loginFile",
    "logout",
    "dashboard",
    "dashboardFile",
    "docs",
    "docsFile",
    "events",
    "openapi",
];

#[test]
fn every_status_of_the_document_is_in_a_transcript() {
    let contract = contract::contract();
    let mut seen = BTreeSet::new();
    for (file, _) in FILES {
        for transcript in read(file).1 {
            let mut asked: BTreeMap<Option<String>, (String, String)> = BTreeMap::new();
            for Step { what, .. } in transcript.steps {
                match what {
                    What::Ask { request, name } => {
                        asked.insert(name, (request.method, request.target));
                    }
                    What::Answer { name, expected } => {
                        let (method, target) = &asked[&name];
                        let operation = contract.operation(method, target);
                        seen.extend(operation.map(|(id, _)| (id, expected.status.clone())));
                    }
                    _ => {}
                }
            }
        }
    }
    let listed = contract.own_statuses().into_iter().filter(|(id, _)| !SEEN_ELSEWHERE.contains(&&**id));
    let unseen: Vec<_> = listed.filter(|listed| !seen.contains(listed)).collect();
    assert!(unseen.is_empty(), "the document lists what no transcript shows: {unseen:?}");
}

/// With one partition, and with four: a caller cannot tell them apart but by the numbers that each partition counts for
/// itself.
fn play_file(file: &str) {
    play_with(file, 1);
    play_with(file, PARTITIONS);
}

/// How many there are in the second play.
const PARTITIONS: usize = 4;

fn play_with(file: &str, partitions: usize) {
    let is_rewriting = partitions == 1 && std::env::var("TRANSCRIPTS").is_ok_and(|mode| mode == "rewrite");
    let (head, transcripts) = read(file);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime can be started");
    let mut rewritten = head;
    let mut failures = Vec::new();
    let is_for_all = |transcript: &&Transcript| partitions == 1 || !transcript.is_about_one_partition();
    for transcript in transcripts.iter().filter(is_for_all) {
        let played = play::play(transcript, runtime.handle(), partitions);
        rewritten.extend(played.rewritten);
        if !played.faults.is_empty() {
            let Transcript { number, title, .. } = transcript;
            let faults = played.faults.join("\n");
            failures.push(format!("{file}.txt, {partitions} partitions: {number} {title}\n{faults}"));
        }
    }
    if is_rewriting {
        fs::write(path(file), rewritten.join("\n") + "\n").expect("a transcript is writable");
    }
    println!(
        "{file}: {} transcripts played with {partitions} partitions",
        transcripts.iter().filter(is_for_all).count()
    );
    assert!(failures.is_empty(), "{} of {} differ\n\n{}", failures.len(), transcripts.len(), failures.join("\n\n"));
}

fn path(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts").join(file).with_extension("txt")
}

/// The lines before the first transcript, and the transcripts.
fn read(file: &str) -> (Vec<String>, Vec<Transcript>) {
    let text = fs::read_to_string(path(file)).expect("a file of transcripts is readable");
    script::parse(file, &text)
}
