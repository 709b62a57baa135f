//! The real binary, from outside: started in a directory of its own on a free port, spoken to over sockets, sent
//! signals, and judged by its answers, its exit code and its log. The transcripts check single answers.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too")]

mod backup;
mod bad_input;
mod cli;
mod client;
mod clock_step;
#[cfg(target_os = "linux")]
mod cluster;
mod commands;
mod crowd;
mod cut;
mod deploy;
mod events;
#[cfg(target_os = "linux")]
mod faults;
mod fleetlock;
mod gone;
mod history;
mod hostile;
mod kills;
mod logs;
mod lookouts;
#[cfg(target_os = "linux")]
mod moving;
#[cfg(target_os = "linux")]
mod notify;
mod pages;
mod peers;
mod proofs;
#[cfg(target_os = "linux")]
mod run;
mod secrets;
mod sign_on;
mod slots;
mod slow;
mod soak;
mod standstill;
mod state;
mod stop;
mod support;
mod tls;
mod unread;
mod watch;
#[cfg(target_os = "linux")]
mod worst;
