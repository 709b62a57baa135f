//! The location of a server's data, for the commands that look after it from outside: named by hand, or where `serve`
//! would have it.

use std::path::{Path, PathBuf};

use crate::config::ServeArgs;
use crate::config::{self, Store};
use crate::exit::Failure;

pub(crate) fn directory(named: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(named) = named {
        return Ok(named.to_owned());
    }
    let loaded = config::load(&ServeArgs::default(), std::env::vars_os(), |path| std::fs::read_to_string(path));
    match loaded.map_err(|error| Failure::usage(error.to_string()))?.config.store {
        Store::Directory(path) => Ok(path),
        Store::Memory => {
            Err(Failure::usage("--data is needed: by its configuration the server keeps everything in memory"))
        }
        Store::Shared(store) => {
            Err(Failure::usage(format!("--data is needed: by its configuration the server keeps its data in {store}")))
        }
    }
}
