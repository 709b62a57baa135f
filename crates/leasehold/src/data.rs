//! The location of a server's data, for the commands that look after it from outside: named by hand, or where `serve`
//! would have it.

use std::path::{Path, PathBuf};

use crate::config::ServeArgs;
use crate::config::{self, SharedAddress, Store, keys};
use crate::exit::Failure;

/// Where the data of a service is.
pub(crate) enum DataPlace {
    Directory(PathBuf),
    Shared(SharedAddress),
}

/// The directory or the shared store that is named, or that `serve` would use.
pub(crate) fn place(data: Option<&Path>, store: Option<&str>) -> Result<DataPlace, Failure> {
    match (data, store) {
        (Some(data), _) => Ok(DataPlace::Directory(data.to_owned())),
        (None, Some(store)) => named_store(store).map(DataPlace::Shared),
        (None, None) => match configured()? {
            Store::Shared(address) => Ok(DataPlace::Shared(address)),
            Store::Directory(path) => Ok(DataPlace::Directory(path)),
            Store::Memory => Err(Failure::usage(
                "--data or --store is needed: by its configuration the server keeps everything in memory",
            )),
        },
    }
}

/// The shared store that `--store` names.
pub(crate) fn named_store(text: &str) -> Result<SharedAddress, Failure> {
    keys::read_shared_store(text).map_err(|why| Failure::usage(format!("--store: {text:?} {why}")))
}

fn configured() -> Result<Store, Failure> {
    let loaded = config::load(&ServeArgs::default(), std::env::vars_os(), |path| std::fs::read_to_string(path));
    Ok(loaded.map_err(|error| Failure::usage(error.to_string()))?.config.store)
}

pub(crate) fn directory(named: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(named) = named {
        return Ok(named.to_owned());
    }
    match configured()? {
        Store::Directory(path) => Ok(path),
        Store::Memory => {
            Err(Failure::usage("--data is needed: by its configuration the server keeps everything in memory"))
        }
        Store::Shared(store) => {
            Err(Failure::usage(format!("--data is needed: by its configuration the server keeps its data in {store}")))
        }
    }
}
