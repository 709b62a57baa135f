//! The sticky lock: taken once, renewed from then on, released at the end.

use std::time::Instant;

use anyhow::{Result, bail};

use super::expect_status;
use crate::drive::{Ask, Heard, Script};
use crate::wire::http;

#[derive(Debug)]
pub(crate) struct LockRenewal {
    renew: Vec<u8>,
    release: Vec<u8>,
    state: Step,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    New,
    Held,
    Releasing,
    Released,
}

impl LockRenewal {
    pub(crate) fn new(number: u64) -> Self {
        let query = format!("client=bench-{number}&job=job-{number}");
        LockRenewal {
            renew: http::request("POST", &format!("/lock?{query}&ttl=30s"), ""),
            release: http::request("DELETE", &format!("/lock?{query}"), ""),
            state: Step::New,
        }
    }
}

impl Script for LockRenewal {
    fn ask(&mut self, _: Instant, over: bool, out: &mut Vec<u8>) -> Ask {
        match self.state {
            Step::Released => return Ask::Done,
            Step::New if over => return Ask::Done,
            Step::Held if over => {
                out.extend_from_slice(&self.release);
                self.state = Step::Releasing;
            }
            _ => out.extend_from_slice(&self.renew),
        }
        Ask::Sent
    }

    fn hear(&mut self, _: Instant, input: &[u8], _: &mut Vec<u8>) -> Result<Heard> {
        let Some(answer) = http::parse(input)? else { return Ok(Heard::Partial) };
        let body = expect_status(&answer, &[200])?;
        let message = http::value(body, b"\"message\":\"").unwrap_or_default();
        self.state = match (self.state, message) {
            (Step::New, b"acquired") | (Step::Held, b"renewed") => Step::Held,
            (Step::Releasing, b"lock released") => Step::Released,
            (state, _) => bail!("{} came while {state:?}", String::from_utf8_lossy(body)),
        };
        Ok(Heard::Answer(answer.len))
    }
}
