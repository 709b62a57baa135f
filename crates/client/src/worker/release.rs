//! Gives a lease back: renewal ends first, then the release is sent until it is answered or its time is over.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::held::Held;
use super::{Core, factor};
use crate::dialect::{Call, Id};
use crate::reply::Heard;
use crate::table::{GivenBack, Released, released};
use crate::terms::backoff;
use crate::transport::Manner;

/// For one attempt, so that several fit into the time of a release.
const ATTEMPT: Duration = Duration::from_millis(1500);

impl Held {
    /// Idempotent: later calls get the result of the first one, and one that is given up goes on.
    pub(crate) async fn release(&self, core: &Arc<Core>, budget: Duration) -> Released {
        let busy = core.busy();
        let result = self.released.get_or_init(|| async {
            self.stop().await;
            self.end_locally();
            let result = give_back(core, &self.id, self.token, budget).await;
            tracing::debug!(lease = %self.id, token = self.token, result = result.word(), "released");
            result
        });
        let result = *result.await;
        drop(busy);
        result
    }
}

/// Sends the release of a lease until it is answered.
pub(crate) async fn give_back(core: &Core, id: &Id, token: u64, budget: Duration) -> Released {
    let over = Instant::now() + budget;
    let mut call = id.release(token);
    let mut is_repeated = false;
    for failures in 1.. {
        let left = over.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        let manner = Manner { patience: left.min(ATTEMPT), is_fresh: failures > 1, is_timed: false };
        let heard = call_within(core, &call, manner, left).await;
        match released(&heard, is_repeated) {
            GivenBack::Done(result) => return result,
            GivenBack::Withdraw => call = id.withdraw(token),
            GivenBack::Again { retry_after } => {
                is_repeated |= matches!(heard, Heard::Unknown { .. });
                let pause = retry_after.unwrap_or_else(|| backoff(failures, factor()));
                sleep(pause.min(over.saturating_duration_since(Instant::now()))).await;
            }
        }
    }
    Released::Unknown
}

/// However many addresses there are.
async fn call_within(core: &Core, call: &Call, manner: Manner, left: Duration) -> Heard {
    let called = timeout(left, core.transport.call(call, manner)).await;
    called.unwrap_or_else(|_| Heard::Unknown {
        trouble: crate::reply::Trouble {
            message: "no answer in time".into(),
            url: core.transport.addresses()[0].to_string(),
            request_id: String::new(),
        },
        retry_after: None,
    })
}
