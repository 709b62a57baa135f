//! The data directory: made for its owner alone, and its names made durable. A file that is synced is still lost if its
//! name is not, and a name is only durable when its directory was synced.

use std::path::Path;

use crate::store::error::StoreError;

/// Makes the directory and those above it, as far as they are not there.
pub(super) fn make(directory: &Path) -> Result<(), StoreError> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    let missing: Vec<&Path> =
        directory.ancestors().take_while(|path| !(path.as_os_str().is_empty() || path.exists())).collect();
    builder
        .create(directory)
        .map_err(|error| StoreError::failed(format!("making the data directory {}", directory.display()), error))?;
    missing.into_iter().try_for_each(|made| sync(above(made)))
}

/// Makes the names in a directory durable.
#[cfg(unix)]
pub(super) fn sync(directory: &Path) -> Result<(), StoreError> {
    std::fs::File::open(directory)
        .and_then(|directory| directory.sync_all())
        .map_err(|error| StoreError::failed(format!("syncing the directory {}", directory.display()), error))
}

/// Elsewhere directories cannot be opened, and file systems keep names without being asked.
#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "the same signature as on unix")]
pub(super) fn sync(_: &Path) -> Result<(), StoreError> {
    Ok(())
}

/// Makes a file in a data directory belong to whoever the directory belongs to: an operator may be root, the server is not.
#[cfg(unix)]
pub(super) fn give_to_owner(path: &Path, directory: &Path) -> Result<(), StoreError> {
    use std::os::unix::fs::{MetadataExt as _, chown};
    let given = (|| {
        let (owner, file) = (std::fs::metadata(directory)?, std::fs::metadata(path)?);
        if (owner.uid(), owner.gid()) == (file.uid(), file.gid()) {
            return Ok(());
        }
        chown(path, Some(owner.uid()), Some(owner.gid()))
    })();
    given.map_err(|error| StoreError::failed(format!("giving {} to its directory's owner", path.display()), error))
}

#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "the same signature as on unix")]
pub(super) fn give_to_owner(_: &Path, _: &Path) -> Result<(), StoreError> {
    Ok(())
}

fn above(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        // A single relative name stands in the working directory.
        _ => Path::new("."),
    }
}
