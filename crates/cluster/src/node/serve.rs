//! How a node serves: messages of its peers and of itself, asks for its partitions, answers on their way out.

use leasehold_engine::{Command, Time, planted};
use leasehold_journal::{Clocks, Denial, Epoch, Position, Request, Told};

use super::Node;
use super::desk::Served;
use super::seat::{Phase, To};
use crate::ids::Peer;
use crate::message::{AskAnswer, Message, Out};
use crate::relay::RelayOut;

impl Node {
    pub(super) fn hear(&mut self, clocks: Clocks, peer: Peer, link: u64, message: Message) {
        match message {
            Message::Ask { ask, sending, partition, epoch, request } => {
                self.serve(clocks, To { peer, ask, sending }, link, partition, epoch, request);
            }
            Message::Leave { ask } => {
                let Some(served) = self.desk.remove((peer, ask)) else { return };
                self.end_served(clocks, &Served { untold: None, ..served });
            }
            Message::Answer { ask, sending, answer } => {
                let mut out = Vec::new();
                self.relay.answered(clocks.mono_us, ask, sending, answer, &mut out);
                self.relayed(out);
            }
            Message::Asked { partition, epoch, node } => {
                if let Some(seat) = self.seats.get_mut(partition as usize).filter(|seat| seat.epoch() == Some(epoch)) {
                    seat.asked.insert(node);
                }
            }
            Message::Look => self.look_due_us = 0,
        }
    }

    /// An ask is served by the owner it names, or it is told that the partition has moved: it is never passed on.
    fn serve(&mut self, clocks: Clocks, to: To, link: u64, partition: u32, epoch: Epoch, request: Request) {
        let n = partition as usize;
        let owned = match self.seats.get_mut(n).filter(|seat| seat.serves(epoch)) {
            Some(seat) => seat.owned.as_mut(),
            None => None,
        };
        let Some(owned) = owned else {
            let (answer, position, at) = (Err(Denial::Moved), Position::START, Time::default());
            let answer = AskAnswer { answer, epoch, position, at, untold: None };
            if planted!(AskPassedOn)
                && let Some(route) = self.relay.route_of(partition).filter(|route| route.to != Peer::ME)
            {
                let (ask, sending, epoch) = (to.ask, to.sending, route.epoch);
                self.post(route.to, Message::Ask { ask, sending, partition, epoch, request });
                return;
            }
            self.send(to, answer);
            return;
        };
        let key = (to.peer, to.ask);
        let before = self.desk.get_mut(key).map(|before| (before.sending, before.partition, before.ticket.take()));
        if before.is_some_and(|(sending, ..)| sending >= to.sending) {
            return;
        }
        let id = match &request.command {
            Command::Acquire(acquire) => Some(acquire.id),
            _ => None,
        };
        let ticket = owned.submit(clocks, request, to);
        if let Some((_, _, before)) = before.filter(|(_, of, _)| *of == partition) {
            owned.supersede(before, id, |other| {
                (other.peer, other.ask) == (to.peer, to.ask) && other.sending < to.sending
            });
        }
        let sending = to.sending;
        let served = Served { partition, sending, epoch, link, ticket, lost_at_us: None, untold: None };
        self.desk.insert(key, served);
        self.touch(n);
    }

    /// The caller of an ask is gone for good.
    pub(super) fn end_served(&mut self, clocks: Clocks, served: &Served) {
        let n = served.partition as usize;
        let seat = self.seats.get_mut(n).filter(|seat| seat.phase == Phase::Serving);
        let Some(owned) = seat.and_then(|seat| seat.owned.as_mut()) else { return };
        if let Some(ticket) = served.ticket {
            owned.leave(clocks, ticket);
        }
        if let Some(claim) = served.untold {
            owned.hand_back(clocks, claim);
        }
        self.touch(n);
    }

    pub(super) fn tell_one(&mut self, told: Told<To>, clocks: Clocks) {
        let Told { to, answer, epoch, position, untold, said_at: at } = told;
        let key = (to.peer, to.ask);
        let Some(served) = self.desk.get_mut(key).filter(|served| served.sending == to.sending) else {
            // It was asked again, or its caller left: its relay sees to it.
            return;
        };
        assert_eq!(served.epoch, epoch, "an ask is answered in the epoch it names");
        served.ticket = None;
        let is_here = to.peer == Peer::ME;
        if served.lost_at_us.is_none() && (is_here || self.peers.link(to.peer) == Some(served.link)) {
            if planted!(WrittenHandedBack) && !is_here {
                served.untold = untold;
            } else {
                self.desk.remove(key);
            }
            self.send(to, AskAnswer { answer, epoch, position, at, untold });
        } else {
            self.desk.set_untold(key, clocks.mono_us, untold);
        }
    }

    fn send(&mut self, to: To, answer: AskAnswer) {
        self.post(to.peer, Message::Answer { ask: to.ask, sending: to.sending, answer });
    }

    pub(super) fn post(&mut self, to: Peer, message: Message) {
        if to == Peer::ME {
            self.inbox.push_back(message);
        } else {
            self.out.push_back(Out::Send(self.peers.address(to).clone(), message));
        }
    }

    pub(super) fn relayed(&mut self, out: Vec<RelayOut>) {
        for out in out {
            match out {
                RelayOut::Send(to, message) => self.post(to, message),
                RelayOut::Answer(caller, answer) => self.out.push_back(Out::Answer(caller, answer)),
            }
        }
    }
}
