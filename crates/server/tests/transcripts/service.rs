//! The service a transcript talks to: the real driver, dialects and sockets over a store in memory, with a clock that
//! only moves when the transcript says so.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use leasehold_engine::{Limits, Wall};
use leasehold_journal::{PartitionLimits, TICK_US, recover_with_history};
use leasehold_server::duration::parse_setting;
use leasehold_server::http::{bind, serve};
use leasehold_server::{App, Clock, Driver, Drivers, Handle, Observer, Settings};
use tokio::sync::oneshot;

use crate::client::PATIENCE;
use crate::store::ValvedOpener;

/// 2024-01-15T10:30:00Z, unless the transcript sets the clock.
const WALL_START: Wall = Wall(1_705_314_600_000_000);

pub(crate) struct Service {
    runtime: tokio::runtime::Handle,
    settings: Settings,
    /// One for each partition.
    openers: Vec<ValvedOpener>,
    /// Bytes that the state may take up.
    state_max: u64,
    wall: Wall,
    running: Option<Running>,
}

struct Running {
    drivers: Drivers,
    handle: Handle,
    observer: Arc<Observer>,
    addr: SocketAddr,
    /// Dropped to stop accepting.
    _stop: oneshot::Sender<()>,
}

impl Service {
    pub(crate) fn start(runtime: &tokio::runtime::Handle, settings: &[(String, String)], partitions: usize) -> Self {
        let mut service = Service {
            runtime: runtime.clone(),
            settings: Settings::default(),
            openers: (0..partitions).map(|_| ValvedOpener::new()).collect(),
            state_max: u64::MAX,
            wall: WALL_START,
            running: None,
        };
        for (name, value) in settings {
            service.set(name, value);
        }
        service.run();
        service
    }

    fn set(&mut self, name: &str, value: &str) {
        let settings = &mut self.settings;
        let us = || parse_setting(value).unwrap_or_else(|error| panic!("{name} {value} {error}"));
        let count = || value.parse().unwrap_or_else(|_| panic!("{name} {value} is no count"));
        match name {
            "clock" => {
                let time: Timestamp = value.parse().expect("the clock is set to an RFC 3339 time");
                self.wall = Wall(u64::try_from(time.as_microsecond()).expect("it is after 1970"));
            }
            "grace" => settings.grace_us = us(),
            "default-ttl" => settings.default_ttl_us = us(),
            "max-ttl" => settings.ttl_max_us = us(),
            "max-wait" => settings.wait_max_us = us(),
            "max-count" => settings.count_max = u64::try_from(count()).expect("a count fits"),
            "retain-finished" => settings.retain_finished_us = us(),
            "max-timeout" => settings.timeout_max_us = us(),
            "fleetlock-ttl" => settings.fleetlock_ttl_us = Some(us()),
            "max-metadata" => settings.metadata_max = count(),
            "max-state" => self.state_max = u64::try_from(count()).expect("a count fits"),
            "retain-max" => settings.retain_max = count(),
            "events-kept" => settings.events_kept = count(),
            "max-waiters" => settings.waiters_max = count(),
            "partitions" => {}
            "public-url" => settings.public_url = Some(value.to_owned()),
            _ => panic!("no setting is called {name}"),
        }
    }

    fn run(&mut self) {
        let settings = &self.settings;
        let limits = Limits {
            grace_us: settings.grace_us,
            retain_us: settings.retain_finished_us,
            retained_max: settings.retain_max,
            state_bytes_max: self.state_max,
            waiting_max: settings.waiters_max,
            ..Limits::default()
        };
        let partition_limits = PartitionLimits {
            callers_max: 10_000,
            store_timeout_us: settings.store_timeout_us,
            backlog_bytes_max: PartitionLimits::BACKLOG_BYTES_MAX,
        };
        let number = u32::try_from(self.openers.len()).expect("there are few");
        let observer = Arc::new(Observer::of_many(settings.events_kept, number));
        let clock = Arc::new(Clock::manual(self.wall));
        let _entered = self.runtime.enter();
        let start = |(opener, partition): (&ValvedOpener, u32)| {
            let recovery = recover_with_history(opener, partition, limits.clone(), settings.events_kept);
            let recovery = recovery.expect("an appended batch can be read");
            Driver::start(recovery, partition_limits.clone(), Arc::clone(&observer), Arc::clone(&clock))
        };
        let drivers = Drivers::of(self.openers.iter().zip(0..).map(start).collect());
        let handle = drivers.handle();
        let app = Arc::new(App::new(settings.clone(), handle.clone(), Arc::clone(&observer)));
        let listener = bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port is free");
        let addr = listener.local_addr().expect("a listener has an address");
        let (stop, stopped) = oneshot::channel();
        self.runtime.spawn(serve(listener, app, settings.http.clone(), async move {
            let _: Result<(), _> = stopped.await;
        }));
        self.running = Some(Running { drivers, handle, observer, addr, _stop: stop });
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.running().addr
    }

    fn running(&self) -> &Running {
        self.running.as_ref().expect("it runs until it is dropped")
    }

    /// Callers that wait for something to happen, or for the store.
    pub(crate) fn waiting(&self) -> usize {
        let callers = self.running().handle.callers();
        let parked = callers.parked + self.running().observer.lookouts();
        if self.openers.iter().any(ValvedOpener::is_closed) { parked + callers.held } else { parked }
    }

    /// Waits until so many callers wait; `false` if that does not come to pass.
    pub(crate) fn comes_to(&self, waiting: usize) -> bool {
        soon(|| self.waiting() == waiting)
    }

    /// Lets time pass the way it does for a service that is never late: before every tick it comes to rest, so that
    /// none of that time is taken for one in which the store was away. If it is, all of the time is.
    pub(crate) fn pass(&mut self, us: u64) {
        let handle = &self.running().handle;
        let mut left_us = us;
        while left_us > 0 {
            assert!(
                soon(|| handle.is_at_rest() || self.openers.iter().any(ValvedOpener::is_blocking)),
                "it does not come to rest"
            );
            // While no lease is held, nothing depends on every tick.
            let step_us = if handle.totals().claims > 0 { left_us.min(TICK_US) } else { left_us };
            handle.advance(step_us);
            left_us -= step_us;
        }
        self.wall = self.wall.plus(us);
    }

    pub(crate) fn stall_store(&self) {
        assert!(soon(|| self.running().handle.is_at_rest()), "it does not come to rest");
        self.openers.iter().for_each(ValvedOpener::close);
    }

    pub(crate) fn unstall_store(&self) {
        self.openers.iter().for_each(ValvedOpener::open_up);
    }

    /// As on SIGTERM: waiting callers are told, new ones are turned away.
    pub(crate) fn shut_down(&self) {
        self.running().drivers.close();
    }

    /// Stops, and some time later starts again with the content of the store.
    pub(crate) fn be_down(&mut self, us: u64) {
        self.stop();
        self.wall = self.wall.plus(us);
        self.run();
    }

    fn stop(&mut self) {
        self.openers.iter().for_each(ValvedOpener::open_up);
        if let Some(Running { drivers, .. }) = self.running.take() {
            drivers.close();
            self.runtime.block_on(drivers.shut_down()).expect("a store in memory does not fail");
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Looks again and again until it is so, for as long as patience lasts.
fn soon(is_so: impl Fn() -> bool) -> bool {
    let began = Instant::now();
    while !is_so() {
        if began.elapsed() > PATIENCE {
            return false;
        }
        std::thread::yield_now();
    }
    true
}
