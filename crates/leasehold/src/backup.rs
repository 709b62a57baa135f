//! `leasehold backup`: one file with everything that was acknowledged when it began, made while the server goes on. It
//! gets its name only once it is whole, verified and on the disk, so a file of that name can be trusted.

use std::path::{Path, PathBuf};
use std::time::Instant;

use jiff::Timestamp;
use leasehold_cluster::moving::Image;
use leasehold_engine::Limits;
use leasehold_journal::{InUse, SqliteReader, examine};

use crate::cli::BackupArgs;
use crate::config::SharedAddress;
use crate::data::{self, DataPlace};
use crate::exit::{Exit, Failure};
use crate::migrate::write_file;
use crate::serve::PARTITION;
use crate::shared::{Shared, block_on};
use crate::size::rounded as size;

pub(crate) fn run(args: &BackupArgs) -> Exit {
    match back_up(args) {
        Ok(sentence) => {
            println!("{sentence}");
            Exit::Done
        }
        Err(failure) => failure.told(),
    }
}

fn back_up(args: &BackupArgs) -> Result<String, Failure> {
    let data = match data::place(args.data.as_deref(), args.store.as_deref())? {
        DataPlace::Directory(data) => data,
        DataPlace::Shared(address) => return back_up_shared(args, &address),
    };
    let started = Instant::now();
    let target = target(args, Some(&data), Timestamp::now())?;
    let reader = SqliteReader::of_directory(&data, PARTITION)?;
    let unfinished = target.unfinished();
    reader.copy_to(&unfinished.0)?;
    let in_use = reader.in_use();
    // A server's log can be started over again.
    drop(reader);
    let examined = examine(&SqliteReader::of_file(&unfinished.0, PARTITION)?, Limits::default())?;
    let file = target.name(&unfinished)?;
    Ok(format!(
        "{} is a verified copy of {}{}: position {}, {}, in {} ms",
        file.display(),
        data.display(),
        if in_use == InUse::No { "" } else { ", which is being served" },
        examined.head,
        size(examined.sizes.file_bytes),
        started.elapsed().as_millis(),
    ))
}

/// Every partition as it is when it is read, put together as the data of one server: such a file can be restored to a
/// data directory and to a shared store. Nodes go on meanwhile.
fn back_up_shared(args: &BackupArgs, address: &SharedAddress) -> Result<String, Failure> {
    let started = Instant::now();
    let target = target(args, None, Timestamp::now())?;
    let (place, mut image) = block_on(async {
        let shared = Shared::open(address)?;
        let map = shared.map().await?;
        if let Some(refusal) = map.meta.stage.refusal(&shared.place) {
            return Err(Failure::usage(refusal));
        }
        let parts = shared.read(&map).await?.into_iter().map(|checked| checked.part).collect();
        Ok((shared.place, Image::new(parts, map.meta.secret)))
    })?;
    let unfinished = target.unfinished();
    write_file(&mut image, &unfinished.0)?;
    let bytes = std::fs::metadata(&unfinished.0).map_or(0, |file| file.len());
    let file = target.name(&unfinished)?;
    Ok(format!(
        "{} is a verified copy of {place}: {} claims held or waiting, {}, in {} ms",
        file.display(),
        image.claims().0,
        size(bytes),
        started.elapsed().as_millis(),
    ))
}

/// Where the copy goes.
#[derive(Debug, PartialEq, Eq)]
struct Target {
    directory: PathBuf,
    file: PathBuf,
}

impl Target {
    fn unfinished(&self) -> Unfinished {
        Unfinished(self.directory.join(format!(".leasehold-backup-{}", std::process::id())))
    }

    /// Gives the file, which is whole, its name.
    fn name(self, unfinished: &Unfinished) -> Result<PathBuf, Failure> {
        let Target { directory, file } = self;
        std::fs::rename(&unfinished.0, &file)
            .and_then(|()| std::fs::File::open(&directory)?.sync_all())
            .map_err(|error| Failure::failed(format!("{} could not be given its name: {error}", file.display())))?;
        Ok(file)
    }
}

fn target(args: &BackupArgs, data: Option<&Path>, now: Timestamp) -> Result<Target, Failure> {
    let to = &args.to;
    let file = if to.is_dir() { to.join(now.strftime("leasehold-%Y%m%dT%H%M%SZ.db").to_string()) } else { to.clone() };
    let directory = match file.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    if !directory.is_dir() {
        return Err(Failure::usage(format!("--to: there is no directory {}", directory.display())));
    }
    let real = |path: &Path| path.canonicalize().ok();
    if real(&directory).is_some_and(|directory| data.and_then(real) == Some(directory)) {
        // It would be lost together with the data, and a wrong name would replace the data itself.
        return Err(Failure::usage("--to must not be in the data directory".to_owned()));
    }
    if file.exists() && !args.force {
        return Err(Failure::usage(format!("--to: {} is there already; --force replaces it", file.display())));
    }
    Ok(Target { directory, file })
}

/// A file that is taken away again unless it was renamed.
struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
