//! Prints the current step while a run takes its time. To standard error; the tables go to standard output.

use std::time::Instant;

#[derive(Debug)]
pub(crate) struct Progress {
    began_at: Instant,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Progress { began_at: Instant::now() }
    }

    pub(crate) fn step(&self, what: &str) {
        let s = self.began_at.elapsed().as_secs();
        eprintln!("[{:2}:{:02}] {what}", s / 60, s % 60);
    }

    pub(crate) fn elapsed_s(&self) -> u64 {
        self.began_at.elapsed().as_secs()
    }
}
