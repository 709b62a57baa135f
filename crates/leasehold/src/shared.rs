//! A shared store from outside, for the commands that look after its data: read as a whole, written as a whole, and
//! verified either way. No node is needed for any of it.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use leasehold_cluster::format::FORMAT;
use leasehold_cluster::moving::{Checked, Image, Streams, read_all, write_all};
use leasehold_cluster::{Map, Meta, NodeId, Partitions, SharedError, SharedStore, Stage, Transfer};
use leasehold_engine::Wall;

use crate::config::SharedAddress;
use crate::driving::open_shared;
use crate::exit::{Exit, Failure};

/// Between two looks at the map, to see which nodes beat. A node that lives beats once a second.
pub(crate) const LOOK_FOR: Duration = Duration::from_millis(2_500);

/// A shared store, and its name in sentences.
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn SharedStore>,
    pub(crate) place: String,
}

/// Runs a command that speaks to a shared store.
pub(crate) fn block_on<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Failure::failed(format!("no runtime: {error}")))?.block_on(future)
}

impl Shared {
    /// Connects to nothing yet. Within [`block_on`].
    pub(crate) fn open(address: &SharedAddress) -> Result<Shared, Failure> {
        let store = open_shared(address).map_err(|error| Failure::usage(format!("{error:#}")))?;
        Ok(Shared { store, place: address.to_string() })
    }

    pub(crate) async fn map(&self) -> Result<Map, Failure> {
        self.store.map().await.map_err(|error| failed(&error))
    }

    /// Reads and verifies every partition, each to its end, while nodes may go on.
    pub(crate) async fn read(&self, map: &Map) -> Result<Vec<Checked>, Failure> {
        let streams = Streams { partitions: map.meta.partitions, place: self.place.clone() };
        read_all(self.store.as_ref(), map, &streams).await.map_err(|error| failed(&error))
    }

    /// Writes an image into the store, which has to be empty, or to hold a part of the same move that was begun before.
    /// It is read again and compared. No node may join before [`Shared::open_up`].
    pub(crate) async fn write(
        &self,
        image: &mut Image,
        partitions: Option<Partitions>,
        way: Transfer,
    ) -> Result<Meta, Failure> {
        match self.store.map().await {
            Ok(Map { meta, .. }) => self.clear_unfinished(meta, &way).await?,
            // It is empty, or the next call says what is the matter.
            Err(SharedError::Refused(_)) => {}
            Err(error) => return Err(failed(&error)),
        }
        let partitions = partitions.unwrap_or(Partitions::DEFAULT);
        let (format, secret) = (FORMAT, image.secret());
        let meta = Meta { partitions, format, secret, stage: Stage::MovingIn(way) };
        let store = self.store.as_ref();
        store.found(meta.clone()).await.map_err(|error| failed(&error))?;
        write_all(store, image, &meta, NodeId(random()), now()).await.map_err(|error| failed(&error))?;
        let map = self.map().await?;
        let parts = self.read(&map).await?.into_iter().map(|checked| checked.part).collect();
        let written = Image::new(parts, secret);
        let all = |image: &Image| (image.claims(), image.counters().last_token, image.at());
        if all(&written) != all(image) {
            let sentence = format!("what was written to {} is not what is there now; nothing is served", self.place);
            return Err(Failure { exit: Exit::Damaged, sentence });
        }
        Ok(meta)
    }

    async fn clear_unfinished(&self, meta: Meta, way: &Transfer) -> Result<(), Failure> {
        match &meta.stage {
            Stage::MovingIn(begun) if begun.other == way.other => {
                self.store.clear(meta).await.map_err(|error| failed(&error))
            }
            Stage::MovingIn(_) | Stage::MovedOut(_) => {
                let refusal = meta.stage.refusal(&self.place).unwrap_or_default();
                Err(Failure::usage(format!("{refusal}; choose an empty prefix or schema to move something else to")))
            }
            Stage::Serving => Err(Failure::usage(format!(
                "there is a cluster in {} already; choose an empty prefix or schema",
                self.place
            ))),
        }
    }

    /// From here on nodes may join.
    pub(crate) async fn open_up(&self, meta: Meta) -> Result<(), Failure> {
        let open = Meta { stage: Stage::Serving, ..meta.clone() };
        self.store.restate(meta, open).await.map_err(|error| failed(&error))
    }
}

pub(crate) fn failed(error: &SharedError) -> Failure {
    let exit = match error {
        SharedError::Damaged { .. } => Exit::Damaged,
        SharedError::Refused(_) => Exit::Usage,
        SharedError::Fenced(_) | SharedError::Away(_) | SharedError::Gone | SharedError::Full(_) => Exit::Failed,
    };
    Failure { exit, sentence: error.to_string() }
}

pub(crate) fn random() -> u128 {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the operating system has randomness");
    u128::from_le_bytes(bytes)
}

pub(crate) fn now() -> Wall {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Wall(u64::try_from(since_1970.as_micros()).unwrap_or(u64::MAX))
}

/// For data from before there were secrets.
pub(crate) fn random_secret() -> [u8; 32] {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).expect("the operating system has randomness");
    secret
}
