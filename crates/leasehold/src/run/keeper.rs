//! The keeper: the process that renews. It lives apart from front, so that front may be stopped or killed: it then ends
//! the command before the lease can pass to another, and gives the lease back.

use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use leasehold_client::terms::Terms;
use leasehold_client::{Client, Handover, Lease, LeaseClock, Loss};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::child::ourselves;
use super::group::Group;
use super::link::{self, ToFront, ToKeeper};
use super::waiting::finish;
use super::{PATIENCE, signals};
use crate::client::ConnectArgs;

/// The first argument that makes this program a keeper.
pub(super) const WORD: &str = "__keeper";

/// Front acts at the same moments; the keeper a little later, so that a command is not sent everything twice.
const LATER: Duration = Duration::from_millis(100);
const TICK: Duration = Duration::from_millis(250);

/// Starts a keeper; the line to it is its standard input.
pub(super) fn start() -> std::io::Result<(UnixStream, Pid)> {
    use std::os::unix::process::CommandExt as _;
    let (ours, theirs) = UnixStream::pair()?;
    let mut command = Command::new(ourselves());
    command.arg(WORD).stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs))).stdout(Stdio::null());
    // The keeper does not need the command's environment, which does no harm either.
    let child = command.process_group(0).spawn()?;
    Ok((ours, Pid::from_raw(i32::try_from(child.id()).map_err(std::io::Error::other)?)))
}

enum News {
    Front(Option<ToKeeper>),
    Renewed(Terms),
    AtRisk(Option<String>),
    Lost(Loss),
}

#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct Keeper {
    front: UnixStream,
    news: Receiver<News>,
    clock: LeaseClock,
    lease: Lease,
    terms: Terms,
    warns: bool,
    group: Option<Group>,
    /// Front has begun to end the command.
    is_front_ending: bool,
    is_term_sent: bool,
    is_kill_sent: bool,
}

/// The process itself.
pub(super) fn run() -> u8 {
    signals::block_for_keeper();
    close_inherited();
    let Ok(front) = std::io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from) else { return 1 };
    let (sender, news) = channel();
    let Ok(from_front) = front.try_clone() else { return 1 };
    if link::listen(from_front, sender.clone(), News::Front).is_err() {
        return 1;
    }
    let Ok(News::Front(Some(ToKeeper::Take { handover, connect, warns, max_hold_ms }))) = news.recv() else { return 1 };
    let terms = handover.terms();
    let Some((client, lease)) = take(*handover, &connect, warns, max_hold_ms, sender) else { return 1 };
    let clock = client.clock().clone();
    let mut keeper = Keeper {
        front,
        news,
        clock,
        lease,
        terms,
        warns,
        group: None,
        is_front_ending: false,
        is_term_sent: false,
        is_kill_sent: false,
    };
    keeper.tell(&ToFront::Ready);
    if keeper.keep() {
        keeper.end_alone();
        finish(keeper.lease.release());
    } else {
        // Front gives it back.
        if finish(keeper.lease.hand_over()).is_some() {
            let _ = link::send(&keeper.front, &ToFront::Stopped);
        }
    }
    0
}

fn take(
    handover: Handover,
    connect: &ConnectArgs,
    warns: bool,
    max_hold_ms: Option<u64>,
    news: Sender<News>,
) -> Option<(Client, Lease)> {
    let client = connect.client().ok()?;
    let [renewed, at_risk] = [news.clone(), news.clone()];
    let mut request = client.lock("");
    if warns {
        request = request.renew_after_loss();
    }
    if let Some(millis) = max_hold_ms {
        request = request.max_hold(Duration::from_millis(millis));
    }
    let request = request
        .on_renewed(move |terms| drop(renewed.send(News::Renewed(terms))))
        .on_at_risk(move |risk| drop(at_risk.send(News::AtRisk(risk.cause))))
        .on_lost(move |loss| drop(news.send(News::Lost(loss))));
    let lease = finish(client.take_over(handover, &request))?.ok()?;
    Some((client, lease))
}

impl Keeper {
    fn tell(&self, message: &ToFront) {
        // A front that is gone is seen by the end of its line.
        let _ = link::send(&self.front, message);
    }

    /// Until front is gone (true), or wants to give the lease back itself (false).
    fn keep(&mut self) -> bool {
        loop {
            match self.news.recv_timeout(TICK) {
                Ok(News::Front(None)) | Err(RecvTimeoutError::Disconnected) => return true,
                Ok(News::Front(Some(message))) => match message {
                    ToKeeper::Group(leader) => self.group = Some(Group(Pid::from_raw(leader))),
                    ToKeeper::Ending => self.is_front_ending = true,
                    ToKeeper::Tell => self.tell(&ToFront::Answer(self.lease.terms())),
                    ToKeeper::Stop => return false,
                    ToKeeper::Take { .. } => {}
                },
                Ok(News::Renewed(terms)) => {
                    self.terms = terms;
                    self.tell(&ToFront::Terms(terms));
                }
                Ok(News::AtRisk(cause)) => self.tell(&ToFront::AtRisk { cause }),
                Ok(News::Lost(loss)) => {
                    self.tell(&ToFront::Lost { cause: loss.cause.clone(), message: loss.to_string() });
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            self.enforce();
        }
    }

    /// By its own clock, whatever front does.
    fn enforce(&mut self) {
        let Some(group) = self.group.filter(|_| !self.warns) else { return };
        let now = self.clock.now();
        let terms = self.lease.terms();
        if now >= terms.at_risk() + LATER && !self.is_front_ending && !self.is_term_sent {
            self.is_term_sent = true;
            group.signal(Signal::SIGTERM);
            group.signal(Signal::SIGCONT);
        }
        if now >= terms.kill() && !self.is_kill_sent {
            self.is_kill_sent = true;
            group.signal(Signal::SIGKILL);
        }
    }

    /// Front is gone: the command must not outlive it.
    fn end_alone(&mut self) {
        let Some(group) = self.group else { return };
        let begun = Instant::now();
        let patience =
            if self.warns { PATIENCE } else { PATIENCE.min(self.lease.terms().kill().since(self.clock.now())) };
        group.signal(Signal::SIGTERM);
        group.signal(Signal::SIGCONT);
        let mut is_said = false;
        while group.is_alive() {
            if begun.elapsed() >= patience {
                group.signal(Signal::SIGKILL);
            }
            if begun.elapsed() >= patience + PATIENCE && !is_said {
                is_said = true;
                eprintln!("leasehold: the command does not end; nothing is released until it does");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Pipes of others must not stay open because of the keeper. Before it has opened anything itself.
fn close_inherited() {
    let Ok(entries) = std::fs::read_dir("/dev/fd") else { return };
    let numbers: Vec<i32> = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for number in numbers.into_iter().filter(|number| *number > 2) {
        let _ = nix::unistd::close(number);
    }
}
