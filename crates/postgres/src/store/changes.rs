//! Wakes a node when the map may have changed, by looking at it again and again. Only a hint: the first look that
//! fails wakes as well. `NOTIFY` would be faster, and takes a lock of the whole database at every commit that notifies.

use std::sync::{Arc, Mutex};

use leasehold_cluster::SharedError;
use tokio::time::sleep;

use super::{Inner, lock};
use crate::client::Params;
use crate::sql;

/// The map as it was last told of.
#[derive(Debug)]
pub(super) struct Changes {
    inner: Arc<Inner>,
    told: Mutex<Option<Sign>>,
}

/// It differs whenever the map does.
type Sign = [i64; 4];

impl Changes {
    pub(super) fn new(inner: Arc<Inner>) -> Changes {
        Changes { inner, told: Mutex::new(None) }
    }

    /// Returns at once the first time, and then whenever something may have changed since it last returned.
    pub(super) async fn next(&self) -> Result<(), SharedError> {
        loop {
            let sign = self.look().await;
            if self.is_news(sign) {
                return Ok(());
            }
            sleep(self.inner.upkeep.poll_every).await;
        }
    }

    fn is_news(&self, sign: Option<Sign>) -> bool {
        let mut told = lock(&self.told);
        let is_news = *told != sign;
        *told = sign;
        is_news
    }

    async fn look(&self) -> Option<Sign> {
        let rows = self.inner.ask(sql::CHANGES, Params::new()).await.ok()?;
        let row = rows.first()?;
        Some([0, 1, 2, 3].map(|at| row.get(at)))
    }
}
