//! The partitions of a service, served and ended together.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use leasehold_journal::StoreError;

use super::{Driver, Handle};

/// The running partitions of a service, by number.
#[derive(Debug)]
pub struct Drivers(Vec<Driver>);

impl Drivers {
    /// All partitions of a service, in the order of their numbers. They have the same clock and the same witness.
    pub fn of(drivers: Vec<Driver>) -> Self {
        assert!(!drivers.is_empty(), "a service has a partition");
        Drivers(drivers)
    }

    /// The entrance to all of them.
    pub fn handle(&self) -> Handle {
        Handle::many(self.0.iter().map(Driver::handle))
    }

    /// Waits until the store of one of them fails for good. The process is to end then.
    pub async fn failure(&self) -> Arc<StoreError> {
        let mut failures: Vec<_> = self.0.iter().map(|driver| Box::pin(driver.failure())).collect();
        poll_fn(|cx| {
            failures
                .iter_mut()
                .find_map(|failure| match failure.as_mut().poll(cx) {
                    Poll::Ready(error) => Some(error),
                    Poll::Pending => None,
                })
                .map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Turns new callers away, answers the parked ones and ends event streams.
    pub fn close(&self) {
        for driver in &self.0 {
            driver.close();
        }
    }

    /// Flushes and ends all of them at the same time. `close` comes first.
    pub async fn shut_down(self) -> Result<(), Arc<StoreError>> {
        let mut ends: Vec<_> = self.0.into_iter().map(|driver| Some(Box::pin(driver.shut_down()))).collect();
        let mut outcome = Ok(());
        let all = poll_fn(|cx| {
            for end in &mut ends {
                let Some(ending) = end else { continue };
                if let Poll::Ready(ended) = ending.as_mut().poll(cx) {
                    outcome = std::mem::replace(&mut outcome, Ok(())).and(ended);
                    *end = None;
                }
            }
            if ends.iter().all(Option::is_none) { Poll::Ready(()) } else { Poll::Pending }
        });
        pin!(all).await;
        outcome
    }
}
