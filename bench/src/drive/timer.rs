//! A wake-up finer than the milliseconds of epoll, so that an open loop sends when it is due.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

#[derive(Debug)]
pub(super) struct Timer {
    fd: OwnedFd,
    armed_at: Option<Instant>,
}

impl Timer {
    pub(super) fn new(registry: &Registry, token: Token) -> io::Result<Self> {
        let fd = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        registry.register(&mut SourceFd(&fd.as_raw_fd()), token, Interest::READABLE)?;
        Ok(Timer { fd, armed_at: None })
    }

    /// Makes the poll end at `at`. Setting it again also clears an expiry that was not read.
    pub(super) fn arm(&mut self, now: Instant, at: Instant) -> io::Result<()> {
        if self.armed_at == Some(at) && at > now {
            return Ok(());
        }
        // Zero would disarm it.
        let rest = at.saturating_duration_since(now).max(Duration::from_nanos(1));
        let it_value = Timespec {
            tv_sec: i64::try_from(rest.as_secs()).expect("no run takes 300 000 million years"),
            tv_nsec: rest.subsec_nanos().into(),
        };
        let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        timerfd_settime(&self.fd, TimerfdTimerFlags::empty(), &Itimerspec { it_interval, it_value })?;
        self.armed_at = Some(at);
        Ok(())
    }
}
