//! Where the keys of proofs are kept: with the data, so that they stay the same across restarts, backups and restores,
//! and are the same on every node of a cluster. In memory they last as long as the process.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::Context as _;
use leasehold_cluster::SharedStore;
use leasehold_journal::{SqliteKeyring, StoreError};
use leasehold_server::{KeyShelf, MemoryShelf, NoKeys, ProofKeys, ShelfAnswer};

use crate::config::Store;

/// The keys of this server, made now if there were none. A node of a cluster keeps them in the store that it shares.
pub(crate) async fn open(store: &Store, shared: Option<Arc<dyn SharedStore>>) -> anyhow::Result<Arc<ProofKeys>> {
    let shelf: Box<dyn KeyShelf> = match (store, shared) {
        (_, Some(shared)) => Box::new(SharedShelf(shared)),
        (Store::Directory(path), None) => Box::new(DirectoryShelf::new(path)),
        (Store::Memory | Store::Shared(_), None) => Box::new(MemoryShelf::default()),
    };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let keys = ProofKeys::open(shelf, now.as_secs()).await.context("proofs cannot be signed")?;
    Ok(Arc::new(keys))
}

/// In the database of a data directory. Its calls block, so they have threads of their own.
#[derive(Debug)]
struct DirectoryShelf(SqliteKeyring);

impl DirectoryShelf {
    fn new(directory: &Path) -> Self {
        DirectoryShelf(SqliteKeyring::of_directory(directory))
    }

    fn asking<T: Send + 'static>(
        &self,
        ask: impl FnOnce(SqliteKeyring) -> Result<T, StoreError> + Send + 'static,
    ) -> ShelfAnswer<'_, T> {
        let keyring = self.0.clone();
        Box::pin(async move {
            let asked = tokio::task::spawn_blocking(move || ask(keyring)).await;
            asked
                .map_err(|error| NoKeys(error.to_string()))?
                .map_err(|error| NoKeys(format!("are not to be had: {error}")))
        })
    }
}

impl KeyShelf for DirectoryShelf {
    fn read(&self) -> ShelfAnswer<'_, Option<Vec<u8>>> {
        self.asking(|keyring| keyring.read())
    }

    fn replace(&self, before: Option<Vec<u8>>, after: Vec<u8>) -> ShelfAnswer<'_, bool> {
        self.asking(move |keyring| keyring.replace(before.as_deref(), &after))
    }

    fn is_shared(&self) -> bool {
        false
    }
}

/// In the store that the nodes of a cluster share, beside their secret.
struct SharedShelf(Arc<dyn SharedStore>);

impl fmt::Debug for SharedShelf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedShelf(…)")
    }
}

impl KeyShelf for SharedShelf {
    fn read(&self) -> ShelfAnswer<'_, Option<Vec<u8>>> {
        Box::pin(async { self.0.keyring().await.map_err(|error| NoKeys(format!("are not to be had: {error}"))) })
    }

    fn replace(&self, before: Option<Vec<u8>>, after: Vec<u8>) -> ShelfAnswer<'_, bool> {
        Box::pin(async {
            let replaced = self.0.replace_keyring(before, after).await;
            replaced.map_err(|error| NoKeys(format!("cannot be replaced: {error}")))
        })
    }

    fn is_shared(&self) -> bool {
        true
    }
}
