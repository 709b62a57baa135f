//! `leasehold restore`: a backup becomes the data of a server again. Existing data is moved aside, never deleted. The
//! journal decides how far the counters jump, and survives a crash in the middle.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::Path;
use std::time::SystemTime;

use jiff::Timestamp;
use leasehold_cluster::Transfer;
use leasehold_cluster::moving::{Image, Part};
use leasehold_engine::{Limits, Wall};
use leasehold_journal::{Restored, SqliteReader, StoreError, examine, first_epoch_after, raised_token};

use crate::cli::RestoreArgs;
use crate::config::{SharedAddress, keys};
use crate::data::{self, DataPlace};
use crate::exit::{Exit, Failure};
use crate::serve::PARTITION;
use crate::shared::{Shared, block_on, now, random, random_secret};

pub(crate) fn run(args: &RestoreArgs) -> Exit {
    match restore(args) {
        Ok(sentence) => {
            println!("{sentence}");
            Exit::Done
        }
        Err(failure) => failure.told(),
    }
}

fn restore(args: &RestoreArgs) -> Result<String, Failure> {
    if args.from.is_dir() {
        return Err(Failure::usage(format!(
            "--from must be a file that leasehold backup wrote, {} is a directory",
            args.from.display()
        )));
    }
    if let Some(problem) = no_backup(&args.from) {
        let from = args.from.display();
        return Err(Failure::usage(format!("--from must be a file that leasehold backup wrote, but {from} {problem}")));
    }
    let data = match data::place(args.data.as_deref(), args.store.as_deref())? {
        DataPlace::Directory(data) => data,
        DataPlace::Shared(address) => return restore_shared(args, &address),
    };
    let time = SystemTime::now();
    let since_1970 = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let wall = Wall(u64::try_from(since_1970.as_micros()).unwrap_or(u64::MAX));
    let stamp = Timestamp::try_from(time).unwrap_or_default().strftime("%Y%m%dT%H%M%SZ").to_string();
    // The process id, as two can happen in a second.
    let aside = format!("replaced-{stamp}-{}", std::process::id());
    let restored = leasehold_journal::restore(&args.from, &data, PARTITION, args.force.then_some(&*aside), wall);
    let Restored { examined, epoch, last_token, replaced } = match restored {
        Ok(restored) => restored,
        Err(error @ StoreError::Taken { .. }) => {
            return Err(Failure::usage(format!("--data: {error}; --force moves it aside")));
        }
        Err(error) => return Err(error.into()),
    };
    let claims = examined.engine.totals().claims;
    let kept = if replaced { format!("\nwhat was there is in {}", data.join(aside).display()) } else { String::new() };
    Ok(format!(
        "{} has been restored to {}: position {}, {claims} claims held or waiting\n\
         tokens go on above {last_token}, epochs above {epoch}{kept}",
        args.from.display(),
        data.display(),
        examined.head,
    ))
}

/// Makes a backup the data of a cluster, in a store that nothing is in. Both counters jump.
fn restore_shared(args: &RestoreArgs, address: &SharedAddress) -> Result<String, Failure> {
    let partitions = args
        .partitions
        .as_deref()
        .map(|text| keys::read_partitions(text).map_err(|why| Failure::usage(format!("--partitions: {text:?} {why}"))));
    let partitions = partitions.transpose()?;
    let (from, wall) = (&args.from, now());
    let reader = SqliteReader::of_file(from, PARTITION)?;
    let examined = examine(&reader, Limits::default())?;
    let secret = reader.secret()?.unwrap_or_else(random_secret);
    let last_token = raised_token(from, examined.engine.last_token(), wall)?;
    let (epoch, head) = (first_epoch_after(examined.epoch, wall), examined.head);
    let part = Part { engine: examined.engine, at: examined.at, epoch: examined.epoch, head };
    let mut image = Image::new(vec![part], secret).raised(last_token, epoch);
    let whole = std::path::absolute(from).unwrap_or_else(|_| from.clone());
    let way = Transfer { id: random(), other: format!("the backup {}", whole.display()) };
    let place = block_on(async {
        let shared = Shared::open(address)?;
        let meta = shared.write(&mut image, partitions, way).await?;
        shared.open_up(meta).await?;
        Ok(shared.place)
    })?;
    Ok(format!(
        "{} has been restored to {place}: position {head}, {} claims held or waiting\n\
         tokens go on above {last_token}, epochs above {epoch}",
        from.display(),
        image.claims().0,
    ))
}

/// Says why a file cannot be a backup, as far as its first bytes tell. A damaged one is found later, and called so.
fn no_backup(file: &Path) -> Option<String> {
    let mut head = [0; SQLITE.len()];
    match File::open(file).and_then(|mut file| file.read_exact(&mut head)) {
        Ok(()) if &head == SQLITE => None,
        Ok(()) => Some("is another kind of file; nothing was changed".to_owned()),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
            Some("is too short for one; nothing was changed".to_owned())
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Some("does not exist".to_owned()),
        Err(error) => Some(format!("could not be read: {error}")),
    }
}

/// The first bytes of every database file.
const SQLITE: &[u8; 16] = b"SQLite format 3\0";
