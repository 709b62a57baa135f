//! The life of a claim: made, polled until it is active, kept alive once, released. Two callers share each resource, so
//! that nearly every claim waits, and becomes active when the one before it ends. Also a pump that fills a journal.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::expect_status;
use crate::drive::{Ask, Heard, Script};
use crate::wire::http;

/// Between two polls of a claim that waits.
const POLL_PAUSE: Duration = Duration::from_millis(2);
/// Large enough that a pump needs few requests, below the limit of the service.
const PUMP_METADATA_BYTES: usize = 15 * 1024;

#[derive(Debug, Default)]
pub(crate) struct Activations {
    /// Claims that were found active.
    pub(crate) active: u64,
    /// The part of them that had to wait.
    pub(crate) after_waiting: u64,
    pub(crate) released: u64,
}

#[derive(Debug)]
pub(crate) struct Claims {
    shared: Rc<RefCell<Activations>>,
    post: Vec<u8>,
    id: String,
    state: Step,
    poll_at: Option<Instant>,
    waited: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Post,
    Poll,
    Heartbeat,
    Release,
}

impl Claims {
    pub(crate) fn new(shared: &Rc<RefCell<Activations>>, number: usize) -> Self {
        let body = format!(r#"{{"resource":"bench/{}","timeout":30,"metadata":{{"job":{number}}}}}"#, number / 2);
        Claims {
            shared: Rc::clone(shared),
            post: http::request("POST", "/v1/claims/", &body),
            id: String::new(),
            state: Step::Post,
            poll_at: None,
            waited: false,
        }
    }
}

impl Script for Claims {
    fn ask(&mut self, now: Instant, over: bool, out: &mut Vec<u8>) -> Ask {
        let body = match self.state {
            Step::Post if over => return Ask::Done,
            Step::Post => {
                out.extend_from_slice(&self.post);
                return Ask::Sent;
            }
            Step::Poll => {
                if let Some(at) = self.poll_at.take().filter(|&at| at > now) {
                    return Ask::At(at);
                }
                r#"{"status":"active"}"#
            }
            Step::Heartbeat => r#"{"ttl":30}"#,
            Step::Release => r#"{"status":"released"}"#,
        };
        out.extend_from_slice(&http::request("PATCH", &format!("/v1/claims/{}/", self.id), body));
        Ask::Sent
    }

    fn hear(&mut self, now: Instant, input: &[u8], _: &mut Vec<u8>) -> Result<Heard> {
        let Some(answer) = http::parse(input)? else { return Ok(Heard::Partial) };
        self.state = match self.state {
            Step::Post => {
                let body = expect_status(&answer, &[201, 202])?;
                let id = http::value(body, b"\"id\":\"").context("a claim without an id")?;
                self.id = String::from_utf8(id.to_vec())?;
                self.waited = answer.status == 202;
                Step::Poll
            }
            Step::Poll => {
                expect_status(&answer, &[200, 409])?;
                if answer.status == 200 {
                    let mut shared = self.shared.borrow_mut();
                    shared.active += 1;
                    shared.after_waiting += u64::from(self.waited);
                    Step::Heartbeat
                } else {
                    self.poll_at = Some(now + POLL_PAUSE);
                    Step::Poll
                }
            }
            Step::Heartbeat => {
                expect_status(&answer, &[200])?;
                Step::Release
            }
            Step::Release => {
                expect_status(&answer, &[204])?;
                self.shared.borrow_mut().released += 1;
                Step::Post
            }
        };
        Ok(Heard::Answer(answer.len))
    }
}

/// Writes claims with much metadata and revokes them, until told that it is enough.
#[derive(Debug)]
pub(crate) struct Pump {
    post: Vec<u8>,
    /// The claim to revoke.
    id: Option<String>,
    enough: Arc<AtomicBool>,
}

impl Pump {
    pub(crate) fn new(number: usize, enough: &Arc<AtomicBool>) -> Self {
        let metadata = "x".repeat(PUMP_METADATA_BYTES);
        let body = format!(r#"{{"resource":"pump/{number}","timeout":600,"metadata":"{metadata}"}}"#);
        Pump { post: http::request("POST", "/v1/claims/", &body), id: None, enough: Arc::clone(enough) }
    }
}

impl Script for Pump {
    fn ask(&mut self, _: Instant, over: bool, out: &mut Vec<u8>) -> Ask {
        match &self.id {
            Some(id) => {
                let path = format!("/v1/claims/{id}/");
                out.extend_from_slice(&http::request("PATCH", &path, r#"{"status":"revoked"}"#));
            }
            None if over || self.enough.load(Ordering::Relaxed) => return Ask::Done,
            None => out.extend_from_slice(&self.post),
        }
        Ask::Sent
    }

    fn hear(&mut self, _: Instant, input: &[u8], _: &mut Vec<u8>) -> Result<Heard> {
        let Some(answer) = http::parse(input)? else { return Ok(Heard::Partial) };
        self.id = if self.id.is_some() {
            expect_status(&answer, &[204])?;
            None
        } else {
            let body = expect_status(&answer, &[201])?;
            let id = http::value(body, b"\"id\":\"").context("a claim without an id")?;
            Some(String::from_utf8(id.to_vec())?)
        };
        Ok(Heard::Answer(answer.len))
    }
}
