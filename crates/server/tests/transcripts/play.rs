//! Plays a transcript: sends its requests, compares the answers, and goes on past a difference with the service's real
//! answer, for as long as the requests still make sense.

use std::collections::BTreeMap;

use crate::client::Sent;
use crate::contract::contract;
use crate::expect::Names;
use crate::script::{Event, Step, Transcript, What};
use crate::service::Service;

pub(crate) struct Played {
    /// The differences, in words.
    pub(crate) faults: Vec<String>,
    /// The transcript with the service's real answers.
    pub(crate) rewritten: Vec<String>,
}

struct Play {
    service: Service,
    names: Names,
    /// Requests in the background, by name.
    waiting: BTreeMap<String, Sent>,
    /// The request that has no answer yet.
    asked: Option<Sent>,
}

pub(crate) fn play(transcript: &Transcript, runtime: &tokio::runtime::Handle, partitions: usize) -> Played {
    let service = Service::start(runtime, &transcript.settings, partitions);
    let mut play = Play { service, names: Names::of(partitions), waiting: BTreeMap::new(), asked: None };
    let mut played = Played { faults: Vec::new(), rewritten: Vec::new() };
    let mut is_stuck = false;
    for step in &transcript.steps {
        let mut text = step.text.clone();
        if !is_stuck {
            let (fault, said) = match play.step(step) {
                Ok(()) => (None, None),
                Err(Fault::Stuck(sentence)) => {
                    is_stuck = true;
                    (Some(format!("  {sentence}")), None)
                }
                Err(Fault::Differs { difference, said }) => (Some(difference), Some(said)),
            };
            text = said.unwrap_or(text);
            let at = |fault| format!("  line {}: {}\n{fault}", step.line, step.text[0]);
            played.faults.extend(fault.map(at));
        }
        played.rewritten.extend(text);
    }
    if played.faults.is_empty() {
        played.faults.extend(play.loose_end().map(|sentence| format!("  at its end: {sentence}")));
    }
    played
}

enum Fault {
    /// The play cannot go on.
    Stuck(String),
    /// The answer is another than the transcript has. The difference, and how a transcript would write it.
    Differs { difference: String, said: Vec<String> },
}

impl From<String> for Fault {
    fn from(sentence: String) -> Self {
        Fault::Stuck(sentence)
    }
}

impl Play {
    fn step(&mut self, step: &Step) -> Result<(), Fault> {
        if !matches!(step.what, What::Nothing | What::Answer { .. }) && self.asked.is_some() {
            return Err("the request before has no answer".to_owned().into());
        }
        match &step.what {
            What::Nothing => {}
            What::Ask { request, name } => {
                let request = self.names.fill(request)?;
                let sent = request.send(self.service.addr()).map_err(|error| format!("cannot be sent: {error}"))?;
                match name {
                    None => self.asked = Some(sent),
                    Some(name) => {
                        self.waiting.insert(name.clone(), sent);
                        if !self.service.comes_to(self.waiting.len()) {
                            return Err(format!("{name} was answered at once: {:?}", self.take(name)?.answer()).into());
                        }
                    }
                }
            }
            What::Answer { name, expected } => {
                let sent = match name {
                    Some(name) => self.take(name)?,
                    None => self.asked.take().ok_or("an answer to nothing".to_owned())?,
                };
                let (method, target) = (sent.method.clone(), sent.target.clone());
                let answer = sent.answer().map_err(|error| format!("no answer: {error}"))?;
                let names_before = self.names.clone();
                if let Some(difference) = self.names.check(expected, &answer) {
                    self.names = names_before;
                    let said = self.names.write(name.as_deref(), expected, &answer);
                    return Err(Fault::Differs { difference, said });
                }
                if let Some(fault) = contract().fault(&method, &target, &answer, self.names.has_many()) {
                    return Err(Fault::Differs { difference: format!("  {fault}"), said: step.text.clone() });
                }
            }
            What::Pass { us } => self.service.pass(*us),
            What::HangUp { name } => {
                drop(self.take(name)?);
                if !self.service.comes_to(self.waiting.len()) {
                    return Err("the service did not notice".to_owned().into());
                }
            }
            What::StillWaits { name } => {
                // Exact because answers are looked at as soon as they are due.
                if !self.waiting.contains_key(name) || self.service.waiting() != self.waiting.len() {
                    return Err(format!("{name} was answered already").into());
                }
            }
            What::Event(event) => match event {
                Event::StoreStalls => self.service.stall_store(),
                Event::StoreGoesOn => self.service.unstall_store(),
                Event::Down { us } => self.service.be_down(*us),
                Event::ShutDown => self.service.shut_down(),
            },
        }
        Ok(())
    }

    fn take(&mut self, name: &str) -> Result<Sent, String> {
        self.waiting.remove(name).ok_or_else(|| format!("no caller {name} waits"))
    }

    /// A request that the transcript left hanging: a promise that was not checked.
    fn loose_end(&self) -> Option<String> {
        if self.asked.is_some() {
            return Some("the last request has no answer".to_owned());
        }
        self.waiting.keys().next().map(|name| format!("{name} has neither an answer nor hung up"))
    }
}
