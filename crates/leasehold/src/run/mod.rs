//! `leasehold run`: a command that runs while a lease is held.
//!
//! ```text
//! user ── front ──────────── child (its own process group)
//!           │ socket pair      ▲
//!         keeper ──────────────┘ ends it if front is gone
//!           └── renews ── service
//! ```
//!
//! Both front and keeper count the lease's deadlines on their own clock, so that either may be stopped or killed.

mod args;
mod child;
mod front;
mod group;
mod keeper;
mod link;
mod say;
mod signals;
mod terminal;
mod waiting;

use std::ffi::OsString;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use leasehold_client::{Client, Error, Handover, Kind, Progress};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use serde_json::json;

use args::OnLoss;
pub(crate) use args::{AFTER_HELP, RunArgs};
use child::NotRunnable;
use front::{ChildEnd, Ended, Front};
use link::{ToFront, ToKeeper};
use say::Voice;
use terminal::Terminal;

/// Between a request to end and the end by force.
const PATIENCE: Duration = Duration::from_secs(5);
const FAILED: u8 = 125;
/// The least ttl: below it there is no time for an orderly end.
const TTL_MIN: Duration = Duration::from_secs(3);

/// The events of the main thread.
enum Event {
    Signal(Signal),
    Progress(Progress),
    Acquired(Result<Box<Handover>, Error>),
    /// `None` when the keeper is gone.
    Keeper(Option<ToFront>),
}

/// The content of `--result-file`.
struct Outcome {
    word: &'static str,
    exit: u8,
    token: Option<u64>,
    waited: Duration,
    held: Option<Duration>,
    /// Die of this signal instead of exiting, as the command did; also this process' group.
    dies_of: Option<(Signal, bool)>,
}

/// The keeper, and the process that becomes the command: `run` starts itself again with a first word that is not for
/// users. The exit code, or `None` when the line is a user's.
pub(crate) fn hidden(mut line: impl Iterator<Item = OsString>) -> Option<u8> {
    match line.nth(1)?.to_str()? {
        keeper::WORD => Some(keeper::run()),
        child::WORD => Some(child::exec(line)),
        _ => None,
    }
}

/// The arguments of a plain `leasehold run …`; `None` for any other line, help and mistakes included.
pub(crate) fn args(mut line: impl Iterator<Item = OsString>) -> Option<RunArgs> {
    use clap::{Args as _, FromArgMatches as _};
    let name = line.next()?;
    if line.next()? != "run" {
        return None;
    }
    let command = RunArgs::augment_args(clap::Command::new("run"));
    let matches = command.try_get_matches_from(std::iter::once(name).chain(line)).ok()?;
    RunArgs::from_arg_matches(&matches).ok()
}

pub(crate) fn run(args: &RunArgs) -> ExitCode {
    let mut voice = Voice::new(args.output, args.quiet);
    let outcome = front(args, &mut voice);
    voice.erase();
    if let Some(file) = &args.result_file {
        let result = json!({
            "outcome": outcome.word,
            "exit": outcome.exit,
            "token": outcome.token,
            "waited_s": outcome.waited.as_secs_f64(),
            "held_s": outcome.held.map(|held| held.as_secs_f64()),
        });
        if let Err(error) = std::fs::write(file, format!("{result}\n")) {
            voice.fail(&format!("--result-file: \"{}\" cannot be written: {error}", file.display()));
        }
    }
    if let Some((signal, also_own_group)) = outcome.dies_of {
        signals::suffer(signal, also_own_group);
    }
    ExitCode::from(outcome.exit)
}

impl Outcome {
    fn of(word: &'static str, exit: u8) -> Outcome {
        Outcome { word, exit, token: None, waited: Duration::ZERO, held: None, dies_of: None }
    }
}

fn front(args: &RunArgs, voice: &mut Voice) -> Outcome {
    let mut fail = |code: u8, sentence: &str| {
        voice.fail(sentence);
        Outcome::of("failed", code)
    };
    if args.ttl < TTL_MIN {
        return fail(FAILED, "--ttl must be 3s or more, so that a command can end in time");
    }
    let name = &args.command[0];
    let program = match child::find(name) {
        Ok(program) => program,
        Err(NotRunnable::NotFound) => return fail(127, &format!("{}: command not found", name.to_string_lossy())),
        Err(NotRunnable::NotExecutable) => {
            return fail(126, &format!("{}: cannot be executed", name.to_string_lossy()));
        }
    };
    // Before there is any other thread.
    let awaited = signals::block();
    let (sender, events) = channel();
    if let Err(error) = signals::listen(awaited, sender.clone()) {
        return fail(FAILED, &format!("no thread can be started: {error}"));
    }
    let request = args.connect.client().and_then(|client| Ok((waiting::request(&client, args)?, client)));
    let (request, client) = match request {
        Ok(request) => request,
        Err(error) => return fail(FAILED, &args.connect.explain(&error)),
    };
    let has_small_pages = child::small_pages(true);
    // It gets ready while the service answers. Without a lease it ends when this process drops its line.
    let keeper = keeper::start();
    let begun = Instant::now();
    let acquisition = match waiting::begin(request, &sender) {
        Ok(acquisition) => acquisition,
        Err(error) => return fail(FAILED, &format!("no thread can be started: {error}")),
    };
    let acquired = wait(args, voice, &events, begun);
    voice.erase();
    let waited = begun.elapsed();
    let handover = match acquired {
        Ok(handover) => handover,
        Err(NotAcquired::Signal(signal)) => {
            drop(acquisition);
            waiting::finish(client.close());
            let exit = 128 + u8::try_from(signal as i32).unwrap_or(0);
            return Outcome { waited, ..Outcome::of("cancelled", exit) };
        }
        Err(NotAcquired::Error(error)) => {
            let outcome = match error {
                Error::Conflict(_) | Error::Timeout { .. } if args.skip => Outcome::of("skipped", 0),
                Error::Conflict(_) | Error::Timeout { .. } => {
                    voice.say("not_acquired", &error.to_string());
                    Outcome::of("not_acquired", args.on_conflict_exit)
                }
                error => {
                    voice.fail(&args.connect.explain(&error));
                    Outcome::of("failed", FAILED)
                }
            };
            waiting::finish(client.close());
            return Outcome { waited, ..outcome };
        }
    };
    let token = handover.token();
    let held_since = Instant::now();
    let mut outcome = held(args, voice, &client, (&sender, &events), (&program, has_small_pages), handover, keeper);
    outcome.token = Some(token);
    outcome.waited = waited;
    outcome.held = Some(held_since.elapsed());
    outcome
}

enum NotAcquired {
    Signal(Signal),
    Error(Error),
}

fn wait(
    args: &RunArgs,
    voice: &mut Voice,
    events: &Receiver<Event>,
    begun: Instant,
) -> Result<Box<Handover>, NotAcquired> {
    let what = waiting::described(args);
    let mut progress = Progress::default();
    loop {
        match events.recv_timeout(Duration::from_millis(250)) {
            Ok(Event::Acquired(outcome)) => return outcome.map_err(NotAcquired::Error),
            Ok(Event::Progress(news)) => progress = news,
            Ok(Event::Signal(signal)) if signals::CANCEL.contains(&signal) => return Err(NotAcquired::Signal(signal)),
            Ok(Event::Signal(Signal::SIGTSTP)) => signals::suffer(Signal::SIGTSTP, false),
            Ok(Event::Signal(_) | Event::Keeper(_)) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(NotAcquired::Error(Error::Closed)),
        }
        voice.waiting(&what, begun.elapsed(), &progress);
    }
}

/// From the grant to the release.
fn held(
    args: &RunArgs,
    voice: &mut Voice,
    client: &Client,
    (sender, events): (&std::sync::mpsc::Sender<Event>, &Receiver<Event>),
    (program, has_small_pages): (&std::path::Path, bool),
    handover: Box<Handover>,
    keeper: std::io::Result<(UnixStream, Pid)>,
) -> Outcome {
    let release = |handover: Handover| waiting::finish(client.release(handover)).and_then(Result::ok);
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let (keeper, keeper_pid) = match hand_to_keeper(args, sender, &handover, keeper) {
        Ok(started) => started,
        Err(error) => {
            release(*handover);
            voice.fail(&error.to_string());
            return Outcome::of("failed", FAILED);
        }
    };
    // The child gets ready while the keeper does. It begins at its word, after both; dropped before, it ends by itself.
    let prepared = child::prepare(program, &args.command, &environment(args, &handover), has_small_pages);
    match keeper_is_ready(&keeper, keeper_pid, events) {
        Ok(()) => {}
        Err(NotAcquired::Signal(signal)) => {
            release(*handover);
            return Outcome::of("cancelled", 128 + u8::try_from(signal as i32).unwrap_or(0));
        }
        Err(NotAcquired::Error(error)) => {
            release(*handover);
            voice.fail(&error.to_string());
            return Outcome::of("failed", FAILED);
        }
    }
    let prepared = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            stop_keeper(&keeper, keeper_pid, events, false);
            release(*handover);
            voice.fail(&format!("{}: cannot be started: {error}", args.command[0].to_string_lossy()));
            return Outcome::of("failed", 126);
        }
    };
    let child = prepared.pid;
    let mut terminal = Terminal::open();
    if let (Some(terminal), Some(leader)) = (&mut terminal, rustix::process::Pid::from_raw(child.as_raw())) {
        terminal.give_at_start(leader);
    }
    let is_told = link::send(&keeper, &ToKeeper::Group(child.as_raw())).is_ok();
    // A keeper that is gone is noticed by the front, too; a child that does not go ends by itself.
    let _ = prepared.go();
    let Ok(line) = keeper.try_clone() else { return Outcome::of("failed", FAILED) };
    let front = Front {
        events,
        voice,
        clock: client.clock().clone(),
        keeper: line,
        keeper_pid,
        terms: handover.terms(),
        on_loss: args.on_loss,
        child,
        terminal,
        is_keeper_gone: !is_told,
    };
    let Ended { status, is_lost, had_terminal } = front.hold();
    // No renewal is sent after this. One that is on its way names this grant by its token, and finds it gone.
    kill_keeper(keeper_pid);
    let released = release(*handover);
    reap_keeper(keeper_pid);
    if released == Some(leasehold_client::Released::Unknown) && !args.quiet && !is_lost {
        voice.say("unknown", "the service did not say that the lease is given back; it is free when its ttl is over");
    }
    if is_lost {
        return Outcome::of("lost", args.on_loss_exit);
    }
    match status {
        ChildEnd::Exited(code) => Outcome::of("ran", u8::try_from(code & 0xff).unwrap_or(u8::MAX)),
        ChildEnd::Signaled(number) => {
            let signal = Signal::try_from(number).ok();
            let dies_of = signal.filter(|signal| matches!(signal, Signal::SIGINT | Signal::SIGQUIT));
            let exit = 128 + u8::try_from(number & 0x7f).unwrap_or(0);
            Outcome { dies_of: dies_of.map(|signal| (signal, had_terminal)), ..Outcome::of("ran", exit) }
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "as map_err hands it over")]
fn cannot_keep(error: std::io::Error) -> Error {
    Error::Setting(format!("the process that renews cannot be started: {error}"))
}

fn hand_to_keeper(
    args: &RunArgs,
    sender: &std::sync::mpsc::Sender<Event>,
    handover: &Handover,
    keeper: std::io::Result<(UnixStream, Pid)>,
) -> Result<(UnixStream, Pid), Error> {
    let (line, pid) = keeper.map_err(cannot_keep)?;
    let take = ToKeeper::Take {
        handover: Box::new(handover.clone()),
        connect: Box::new(args.connect.clone()),
        warns: args.on_loss == OnLoss::Warn,
        max_hold_ms: args.max_hold.map(|span| u64::try_from(span.as_millis()).unwrap_or(u64::MAX)),
    };
    link::send(&line, &take).map_err(cannot_keep)?;
    link::listen(line.try_clone().map_err(cannot_keep)?, sender.clone(), Event::Keeper).map_err(cannot_keep)?;
    Ok((line, pid))
}

/// The keeper holds the lease before the command begins. A signal until then ends it all.
fn keeper_is_ready(line: &UnixStream, pid: Pid, events: &Receiver<Event>) -> Result<(), NotAcquired> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match events.recv_timeout(left) {
            Ok(Event::Keeper(Some(ToFront::Ready))) => return Ok(()),
            Ok(Event::Signal(signal)) if signals::CANCEL.contains(&signal) => {
                stop_keeper(line, pid, events, false);
                return Err(NotAcquired::Signal(signal));
            }
            Ok(Event::Keeper(None)) | Err(_) => {
                stop_keeper(line, pid, events, true);
                return Err(NotAcquired::Error(cannot_keep(std::io::Error::other("it does not answer"))));
            }
            Ok(_) => {}
        }
    }
}

/// No renewal may outlive the release: the keeper says that it has stopped, or it is killed before.
fn stop_keeper(line: &UnixStream, pid: Pid, events: &Receiver<Event>, is_gone: bool) {
    if !is_gone {
        asked_to_stop(line, events);
    }
    end_keeper(pid);
}

/// Says whether the keeper answered that it renews no more.
fn asked_to_stop(line: &UnixStream, events: &Receiver<Event>) -> bool {
    if link::send(line, &ToKeeper::Stop).is_err() {
        return false;
    }
    let deadline = Instant::now() + Duration::from_secs(1);
    while let Some(left) = deadline.checked_duration_since(Instant::now()) {
        match events.recv_timeout(left) {
            Ok(Event::Keeper(Some(ToFront::Stopped))) => return true,
            Ok(Event::Keeper(None)) | Err(_) => return false,
            Ok(_) => {}
        }
    }
    false
}

fn end_keeper(pid: Pid) {
    kill_keeper(pid);
    reap_keeper(pid);
}

fn kill_keeper(pid: Pid) {
    // Its number is its own until it is reaped.
    let _ = nix::sys::signal::kill(pid, Signal::SIGKILL);
}

fn reap_keeper(pid: Pid) {
    if let Some(pid) = rustix::process::Pid::from_raw(pid.as_raw()) {
        let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
    }
}

/// The environment of the command. It does not contain a pool's id, which is a credential.
fn environment(args: &RunArgs, handover: &Handover) -> Vec<(&'static str, String)> {
    let resource = match handover.kind() {
        Kind::Lock => args.lock.clone(),
        Kind::Claim => args.claim.clone(),
        Kind::Pool => Some(args.label.clone()),
    };
    let mut environment = vec![
        ("LEASEHOLD_FENCING_TOKEN", handover.token().to_string()),
        ("LEASEHOLD_LEASE", handover.lease_id().to_owned()),
        ("LEASEHOLD_KIND", handover.kind().word().to_owned()),
        ("LEASEHOLD_RESOURCE", resource.unwrap_or_default()),
    ];
    let named = handover.named_slot();
    environment.push(("LEASEHOLD_SLOT", handover.slot().map_or(String::new(), |slot| slot.to_string())));
    environment.push(("LEASEHOLD_SLOT_NAME", named.map_or(String::new(), |slot| slot.name.clone())));
    environment.push(("LEASEHOLD_SLOT_DATA", named.map_or(String::new(), |slot| slot.data.to_string())));
    environment
}
