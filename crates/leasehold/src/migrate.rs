//! `leasehold migrate`: carries everything from a data directory into the shared store of a cluster, and back, or from
//! one shared store to another. Either the source may be served or the target, at every instant, however this ends:
//!
//! ```text
//! into a store     target closed to nodes ─▶ facts written, read again ─▶ source marked as moved ─▶ target open
//! out of a store   source closed to nodes ─▶ every partition taken ─▶ read to its end ─▶ target made and put in place
//! ```
//!
//! After a crash both may be closed; the same command, run again, goes on. Nothing is ever removed from a source.

use std::path::{Path, PathBuf};

use leasehold_cluster::moving::{Image, Part, take_all, write_stream};
use leasehold_cluster::{Map, Meta, NodeId, Partitions, Stage, Transfer};
use leasehold_engine::Limits;
use leasehold_journal::{
    Founding, InUse, NewDirectory, SqliteOpener, SqliteReader, StoreError, examine, mark_moved, recover,
};

use crate::cli::MigrateArgs;
use crate::config::{SharedAddress, keys};
use crate::exit::{Exit, Failure};
use crate::serve::PARTITION;
use crate::shared::{LOOK_FOR, Shared, block_on, failed, now, random};

pub(crate) fn run(args: &MigrateArgs) -> Exit {
    match migrate(args) {
        Ok(sentence) => {
            println!("{sentence}");
            Exit::Done
        }
        Err(failure) => failure.told(),
    }
}

/// One side of a move.
enum End {
    Directory(PathBuf),
    Store(SharedAddress),
}

impl End {
    fn read(flag: &str, text: &str) -> Result<End, Failure> {
        if text.contains("://") {
            let address = keys::read_shared_store(text);
            return address.map(End::Store).map_err(|why| Failure::usage(format!("{flag}: {text:?} {why}")));
        }
        let path = Path::new(text);
        let whole = std::path::absolute(path).map_err(|error| Failure::usage(format!("{flag}: {text:?}: {error}")))?;
        Ok(End::Directory(whole))
    }
}

fn migrate(args: &MigrateArgs) -> Result<String, Failure> {
    let partitions = args
        .partitions
        .as_deref()
        .map(|text| keys::read_partitions(text).map_err(|why| Failure::usage(format!("--partitions: {text:?} {why}"))));
    let partitions = partitions.transpose()?;
    match (End::read("--from", &args.from)?, End::read("--to", &args.to)?) {
        (End::Directory(_), End::Directory(_)) => Err(Failure::usage(
            "--from and --to are both data directories; leasehold backup and leasehold restore copy one",
        )),
        (End::Directory(from), End::Store(to)) => {
            block_on(async { move_in(&from, &Shared::open(&to)?, partitions).await })
        }
        (End::Store(_), End::Directory(_)) if partitions.is_some() => {
            Err(Failure::usage("--partitions is of a cluster; a data directory has one"))
        }
        (End::Store(from), End::Directory(to)) => block_on(async { move_out(&Shared::open(&from)?, &to).await }),
        (End::Store(from), End::Store(to)) => {
            block_on(async { move_over(&Shared::open(&from)?, &Shared::open(&to)?, partitions).await })
        }
    }
}

fn name_of(directory: &Path) -> String {
    format!("the data directory {}", directory.display())
}

/// Describes the data that was moved, for the sentence at the end.
fn told(image: &Image) -> String {
    let (live, ended) = image.claims();
    let (token, epoch) = (image.counters().last_token, image.epoch());
    format!("{live} claims held or waiting, {ended} ended; tokens go on above {token}, epochs above {epoch}")
}

async fn move_in(from: &Path, to: &Shared, partitions: Option<Partitions>) -> Result<String, Failure> {
    match SqliteReader::of_directory(from, PARTITION) {
        Ok(reader) => refuse_in_use(from, reader.in_use())?,
        Err(StoreError::Moved { id, other, .. }) if other == to.place => return finish_moved(from, to, id).await,
        Err(error) => return Err(error.into()),
    }
    let recovery = recover(&SqliteOpener::new(from), PARTITION, Limits::default())?;
    let secret = recovery.store.secret().expect("a database has a secret");
    let epoch = recovery.epoch;
    let part = Part { engine: recovery.engine, at: recovery.at, epoch, head: recovery.head };
    let mut image = Image::new(vec![part], secret);
    let way = Transfer { id: random(), other: name_of(from) };
    let meta = to.write(&mut image, partitions, way.clone()).await?;
    // The lock of the directory goes with the store, for a moment: the mark compares that no server came in between.
    drop(recovery.store);
    mark_moved(from, PARTITION, epoch, way.id, &to.place)?;
    to.open_up(meta).await?;
    Ok(format!(
        "{} was moved to {}: {}\nno server starts on the directory any more; start nodes with --store",
        from.display(),
        to.place,
        told(&image)
    ))
}

fn refuse_in_use(directory: &Path, in_use: InUse) -> Result<(), Failure> {
    let InUse::By { process } = in_use else { return Ok(()) };
    Err(StoreError::Locked { directory: directory.to_owned(), holder: process }.into())
}

/// The source was marked before, so everything is in the target: all that can be missing is that nodes may join.
async fn finish_moved(from: &Path, to: &Shared, id: u128) -> Result<String, Failure> {
    let Map { meta, .. } = to.map().await?;
    match &meta.stage {
        Stage::MovingIn(way) if way.id == id => to.open_up(meta).await?,
        Stage::Serving => {}
        Stage::MovingIn(_) | Stage::MovedOut(_) => {
            let refusal = meta.stage.refusal(&to.place).unwrap_or_default();
            return Err(Failure::usage(format!("{} was moved to {} before, and {refusal}", from.display(), to.place)));
        }
    }
    Ok(format!("{} was moved to {} before; start nodes with --store", from.display(), to.place))
}

/// A source store that no node may join, with everything in it.
struct Closed {
    meta: Meta,
    /// It was closed here, and may be opened again as long as no other place has its data.
    is_ours: bool,
    image: Image,
}

/// Closes a store to nodes and reads all of it.
async fn close(from: &Shared, other: &str) -> Result<Closed, Failure> {
    let map = from.map().await?;
    let way = Transfer { id: random(), other: other.to_owned() };
    let (seen, meta) = match &map.meta.stage {
        Stage::Serving => {
            refuse_living(from, &map).await?;
            (Some(map.meta.clone()), Meta { stage: Stage::MovedOut(way), ..map.meta.clone() })
        }
        Stage::MovedOut(begun) if begun.other == other => (None, map.meta.clone()),
        Stage::MovingIn(_) | Stage::MovedOut(_) => {
            return Err(Failure::usage(map.meta.stage.refusal(&from.place).unwrap_or_default()));
        }
    };
    let is_ours = seen.is_some();
    if let Some(seen) = seen {
        from.store.restate(seen, meta.clone()).await.map_err(|error| failed(&error))?;
    }
    match read_closed(from).await {
        Ok(image) => Ok(Closed { meta, is_ours, image }),
        Err(failure) => Err(reopen(from, meta, is_ours, failure).await),
    }
}

/// Buries what is left of nodes, takes every partition and reads it: nothing of an earlier owner can land any more.
async fn read_closed(from: &Shared) -> Result<Image, Failure> {
    let store = from.store.as_ref();
    for seen in from.map().await?.nodes {
        store.bury(seen).await.map_err(|error| failed(&error))?;
    }
    let map = from.map().await?;
    take_all(store, &map, NodeId(random())).await.map_err(|error| failed(&error))?;
    let map = from.map().await?;
    let parts = from.read(&map).await?.into_iter().map(|checked| checked.part).collect();
    Ok(Image::new(parts, map.meta.secret))
}

async fn reopen(from: &Shared, meta: Meta, is_ours: bool, mut failure: Failure) -> Failure {
    if is_ours && from.open_up(meta).await.is_err() {
        let advice = format!("; no node may join {} until this is run again", from.place);
        failure.sentence.push_str(&advice);
    }
    failure
}

/// A node that beats is alive. One that does not is buried later, and cannot come back.
async fn refuse_living(from: &Shared, before: &Map) -> Result<(), Failure> {
    if before.living().next().is_none() {
        return Ok(());
    }
    tokio::time::sleep(LOOK_FOR).await;
    let map = from.map().await?;
    let beats = |node: NodeId| before.node(node).map(|seen| seen.value.beat);
    match map.living().find(|record| beats(record.node) != Some(record.beat)) {
        None => Ok(()),
        Some(record) => Err(Failure {
            exit: Exit::Locked,
            sentence: format!("{} is in use by the node at {}; stop all nodes first", from.place, record.address),
        }),
    }
}

async fn move_out(from: &Shared, to: &Path) -> Result<String, Failure> {
    // Before the source is touched: it may hold data, be in use, or be open to others.
    let target = match NewDirectory::begin(to) {
        Err(error @ StoreError::Taken { .. }) => {
            return if was_moved_out(from, to).await? {
                Ok(format!("{} was moved to {} before; start one server with --data", from.place, to.display()))
            } else {
                Err(Failure::usage(format!("--to: {error}; choose an empty directory")))
            };
        }
        target => target?,
    };
    let Closed { meta, is_ours, mut image } = close(from, &name_of(to)).await?;
    if let Err(failure) = write_file(&mut image, &target.database()) {
        return Err(reopen(from, meta, is_ours, failure).await);
    }
    target.put_in_place()?;
    Ok(format!(
        "{} was moved to {}: {}\nno node joins that cluster any more; start one server with --data",
        from.place,
        to.display(),
        told(&image)
    ))
}

/// Returns whether the directory has the data of this store, by a move that came to its end.
async fn was_moved_out(from: &Shared, to: &Path) -> Result<bool, Failure> {
    let meta = from.map().await?.meta;
    let is_closed = matches!(&meta.stage, Stage::MovedOut(way) if way.other == name_of(to));
    Ok(is_closed && SqliteReader::of_directory(to, PARTITION)?.secret()? == Some(meta.secret))
}

/// Writes an image as the database of one server, reads it again and compares.
pub(crate) fn write_file(image: &mut Image, file: &Path) -> Result<(), Failure> {
    let mut founding = Founding::begin(file, PARTITION, image.secret())?;
    let stream = write_stream(image, PARTITION, now(), |chunk| founding.put_chunk(chunk))?;
    founding.finish(stream.epoch, stream.checkpoint.upto, &stream.batch)?;
    let examined = examine(&SqliteReader::of_file(file, PARTITION)?, Limits::default())?;
    let totals = examined.engine.totals();
    let (written, read) = (image.claims(), (totals.claims, totals.retained));
    if (written, image.counters().last_token) != (read, examined.engine.last_token()) {
        let sentence = format!("{} has {read:?} claims, and {written:?} were written", file.display());
        return Err(Failure { exit: Exit::Damaged, sentence });
    }
    Ok(())
}

async fn move_over(from: &Shared, to: &Shared, partitions: Option<Partitions>) -> Result<String, Failure> {
    if from.place == to.place {
        return Err(Failure::usage("--from and --to are the same store"));
    }
    let Closed { meta, is_ours, mut image } = close(from, &to.place).await?;
    let way = Transfer { id: random(), other: from.place.clone() };
    let written = match to.write(&mut image, partitions.or(Some(meta.partitions)), way).await {
        Ok(written) => written,
        Err(failure) => return Err(reopen(from, meta, is_ours, failure).await),
    };
    to.open_up(written).await?;
    Ok(format!(
        "{} was moved to {}: {}\nno node joins the first any more; start nodes on the second",
        from.place,
        to.place,
        told(&image)
    ))
}
