//! Messages to a service manager (`sd_notify`): that it listens, that it stops, that it reloads; and, where a watchdog
//! is set, at half its time, that changes still become durable. Without a service manager that asked for them, all of
//! this does nothing.

#[cfg(target_os = "linux")]
pub(crate) use linux::{keep_watched, ready, reloading, stopping};

#[cfg(target_os = "linux")]
mod linux {
    use leasehold_server::Handle;
    use sd_notify::NotifyState;

    pub(crate) fn ready() {
        tell(&[NotifyState::Ready]);
    }

    pub(crate) fn stopping() {
        tell(&[NotifyState::Stopping]);
    }

    pub(crate) fn reloading() {
        match NotifyState::monotonic_usec_now() {
            Ok(now) => tell(&[NotifyState::Reloading, now]),
            Err(error) => tracing::debug!(%error, "the service manager was not told of the reload"),
        }
    }

    /// Tells the watchdog at half its time, but only after a change was made durable. A process that answers and cannot
    /// commit is restarted, too.
    pub(crate) async fn keep_watched(driver: Handle) {
        let Some(period) = sd_notify::watchdog_enabled().filter(|period| !period.is_zero()) else {
            return std::future::pending().await;
        };
        let mut times = tokio::time::interval(period / 2);
        times.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            times.tick().await;
            match tokio::time::timeout(period / 2, driver.is_ready()).await {
                Ok(true) => tell(&[NotifyState::Watchdog]),
                Ok(false) | Err(_) => {
                    tracing::warn!(
                        "the service is not ready: no change became durable in time; the watchdog gets no sign of life"
                    );
                }
            }
        }
    }

    fn tell(state: &[NotifyState<'_>]) {
        // Without NOTIFY_SOCKET it succeeds and sends nothing.
        if let Err(error) = sd_notify::notify(state) {
            tracing::warn!("the service manager could not be told: {error}");
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn ready() {}

#[cfg(not(target_os = "linux"))]
pub(crate) fn stopping() {}

#[cfg(not(target_os = "linux"))]
pub(crate) fn reloading() {}

#[cfg(not(target_os = "linux"))]
pub(crate) async fn keep_watched(_: leasehold_server::Handle) {
    std::future::pending().await
}
