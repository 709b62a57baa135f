//! The data directory: made for its owner alone, and its names made durable. A file that is synced is still lost if its
//! name is not, and a name is only durable when its directory was synced.

use std::path::Path;

use crate::store::error::StoreError;

/// The permissions of the group and of all other users.
#[cfg(unix)]
const OTHERS: u32 = 0o077;

/// Makes the directory and its parents where they are missing. A directory that exists must be private to its owner:
/// the ids of pools are in its files, and a reader who knows an id may use the pool.
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
    missing.into_iter().try_for_each(|made| sync(above(made)))?;
    refuse_exposed(directory)
}

#[cfg(unix)]
fn refuse_exposed(directory: &Path) -> Result<(), StoreError> {
    use std::os::unix::fs::MetadataExt as _;
    let found = std::fs::metadata(directory)
        .map_err(|error| StoreError::failed(format!("looking at {}", directory.display()), error))?;
    if found.mode() & OTHERS != 0 {
        return Err(StoreError::Exposed { directory: directory.to_owned(), mode: found.mode() & 0o7777 });
    }
    Ok(())
}

#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "the same signature as on unix")]
fn refuse_exposed(_: &Path) -> Result<(), StoreError> {
    Ok(())
}

/// Makes an existing file private to its owner: earlier versions left its mode to the umask.
#[cfg(unix)]
pub(super) fn close_file(path: &Path) -> Result<(), StoreError> {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    let closed = match std::fs::metadata(path) {
        Ok(file) if file.mode() & OTHERS != 0 => {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(file.mode() & 0o7777 & !OTHERS))
        }
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    };
    closed.map_err(|error| StoreError::failed(format!("closing {} to others", path.display()), error))
}

#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "the same signature as on unix")]
pub(super) fn close_file(_: &Path) -> Result<(), StoreError> {
    Ok(())
}

/// Files here are made readable and writable for their owner alone.
pub(super) fn private(options: &mut std::fs::OpenOptions) -> &mut std::fs::OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// Makes the names in a directory durable.
#[cfg(unix)]
pub(super) fn sync(directory: &Path) -> Result<(), StoreError> {
    std::fs::File::open(directory)
        .and_then(|directory| directory.sync_all())
        .map_err(|error| StoreError::failed(format!("syncing the directory {}", directory.display()), error))
}

/// On other platforms directories cannot be opened, and file systems keep names without being asked.
#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "the same signature as on unix")]
pub(super) fn sync(_: &Path) -> Result<(), StoreError> {
    Ok(())
}

/// Makes a file in a data directory belong to the owner of the directory: an operator may be root, the server is not.
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
