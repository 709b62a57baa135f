//! `leasehold check`: reads a data directory, a backup or a shared store as a start would, verifies every record,
//! changes nothing, and prints a summary. Counts and sizes only: a pool's id is a credential and is never shown.

use jiff::Timestamp;
use leasehold_cluster::moving::Checked;
use leasehold_cluster::{Map as ClusterMap, Stage};
use leasehold_engine::{Kind, KindTotals, Limits, Wall};
use leasehold_journal::record::FORMAT_VERSION;
use leasehold_journal::{Examined, InUse, SqliteReader, examine};
use serde_json::{Map, Value, json};

use crate::cli::CheckArgs;
use crate::commands::Table;
use crate::config::SharedAddress;
use crate::data::{self, DataPlace};
use crate::exit::{Exit, Failure};
use crate::serve::PARTITION;
use crate::shared::{Shared, block_on};
use crate::size::rounded as size;

pub(crate) fn run(args: &CheckArgs) -> Exit {
    match data::place(args.data.as_deref(), args.store.as_deref()).and_then(|place| show(args, place)) {
        Ok(()) => Exit::Done,
        Err(failure) => {
            if args.json {
                outln!("{:#}", json!({"sound": false, "error": failure.sentence}));
            }
            failure.told()
        }
    }
}

fn show(args: &CheckArgs, place: DataPlace) -> Result<(), Failure> {
    let path = match place {
        DataPlace::Directory(path) => path,
        DataPlace::Shared(address) => return show_shared(args, &address),
    };
    let reader = if path.is_file() {
        SqliteReader::of_file(&path, PARTITION)
    } else {
        SqliteReader::of_directory(&path, PARTITION)
    }?;
    let examined = examine(&reader, Limits::default())?;
    if args.json {
        outln!("{:#}", document(&reader, &examined));
    } else {
        out!("{}", text(&reader, &examined));
    }
    Ok(())
}

/// A cluster: a line for each of its partitions, and the sums.
fn show_shared(args: &CheckArgs, address: &SharedAddress) -> Result<(), Failure> {
    let (place, map, all) = block_on(async {
        let shared = Shared::open(address)?;
        let map = shared.map().await?;
        if let (Stage::MovingIn(_), Some(refusal)) = (&map.meta.stage, map.meta.stage.refusal(&shared.place)) {
            return Err(Failure::usage(refusal));
        }
        let all = shared.read(&map).await?;
        Ok((shared.place, map, all))
    })?;
    if args.json {
        outln!("{:#}", shared_document(&place, &map, &all));
        return Ok(());
    }
    let sum = |pick: fn(KindTotals) -> usize| {
        let of = |kind| all.iter().map(|checked| pick(checked.part.engine.totals().of(kind))).sum::<usize>();
        Kind::ALL.map(|kind| format!("{} {}", kind.as_str(), of(kind))).join(", ")
    };
    let retained: usize = all.iter().map(|checked| checked.part.engine.totals().retained).sum();
    let last_token = all.iter().map(|checked| checked.part.engine.last_token()).max().unwrap_or_default();
    outln!("{place} is sound");
    if let Some(refusal) = map.meta.stage.refusal(&place) {
        outln!("  {:<14}{refusal}", "note");
    }
    for (name, value) in [
        ("last token", last_token.to_string()),
        ("resources", sum(|of| of.resources)),
        ("held", sum(|of| of.holding)),
        ("waiting", sum(|of| of.waiting)),
        ("ended, kept", retained.to_string()),
    ] {
        outln!("  {name:<14}{value}");
    }
    let mut table = Table::new(&["PARTITION", "EPOCH", "POSITION", "CHECKPOINT", "BATCHES", "BYTES", "CLAIMS"]);
    for (number, checked) in all.iter().enumerate() {
        table.row(vec![
            number.to_string(),
            checked.part.epoch.to_string(),
            checked.part.head.to_string(),
            checked.checkpoint.map_or_else(|| "none".to_owned(), |upto| upto.to_string()),
            checked.batches.0.to_string(),
            size(checked.batches.1 + checked.chunks.1),
            checked.part.engine.totals().claims.to_string(),
        ]);
    }
    table.print();
    Ok(())
}

fn shared_document(place: &str, map: &ClusterMap, all: &[Checked]) -> Value {
    let sum = |pick: fn(KindTotals) -> usize| {
        let of = |kind| all.iter().map(|checked| pick(checked.part.engine.totals().of(kind))).sum::<usize>();
        Value::Object(Map::from_iter(Kind::ALL.map(|kind| (kind.as_str().to_owned(), json!(of(kind))))))
    };
    let partitions = all.iter().enumerate().map(|(number, checked)| {
        json!({
            "partition": number,
            "epoch": checked.part.epoch.0,
            "position": checked.part.head.0,
            "last_token": checked.part.engine.last_token().0,
            "service_time_us": checked.part.at.0,
            "checkpoint": checked.checkpoint.map(|upto| json!({"position": upto.0, "bytes": checked.chunks.1})),
            "tail": {"batches": checked.batches.0, "bytes": checked.batches.1},
            "claims": checked.part.engine.totals().claims,
        })
    });
    json!({
        "sound": true,
        "store": place,
        "moved_to": match &map.meta.stage {
            Stage::MovedOut(way) => Some(&way.other),
            Stage::Serving | Stage::MovingIn(_) => None,
        },
        "last_token": all.iter().map(|checked| checked.part.engine.last_token().0).max(),
        "resources": sum(|of| of.resources),
        "held": sum(|of| of.holding),
        "waiting": sum(|of| of.waiting),
        "retained": all.iter().map(|checked| checked.part.engine.totals().retained).sum::<usize>(),
        "partitions": partitions.collect::<Vec<_>>(),
    })
}

fn text(reader: &SqliteReader, examined: &Examined) -> String {
    let totals = examined.engine.totals();
    let kinds = |pick: fn(KindTotals) -> usize| {
        let counts = Kind::ALL.map(|kind| format!("{} {}", kind.as_str(), pick(totals.of(kind))));
        counts.join(", ")
    };
    let sizes = examined.sizes;
    let mut lines = vec![
        (
            "in use",
            match reader.in_use() {
                InUse::No => "no".to_owned(),
                InUse::By { process: Some(process) } => {
                    format!("by process {process}; this is how it was a moment ago")
                }
                InUse::By { process: None } => "by another process; this is how it was a moment ago".to_owned(),
            },
        ),
        ("format", format!("tables {}, records {FORMAT_VERSION}", reader.schema_version())),
        ("epoch", examined.epoch.to_string()),
        ("position", examined.head.to_string()),
        ("last token", examined.engine.last_token().to_string()),
        ("last change", shown(examined.wall).unwrap_or_else(|| "never".to_owned())),
        ("service time", format!("{} s", examined.at.0 / 1_000_000)),
        (
            "checkpoint",
            match examined.checkpoint {
                None => "none".to_owned(),
                Some(upto) => format!("of position {upto}, {}", size(sizes.checkpoint_bytes)),
            },
        ),
        ("tail", {
            let (batches, changes) = (examined.tail_batches, examined.tail_changes);
            format!("{changes} changes in {batches} batches, {}", size(sizes.tail_bytes))
        }),
        ("on disk", size(sizes.file_bytes)),
        ("resources", kinds(|of| of.resources)),
        ("held", kinds(|of| of.holding)),
        ("waiting", kinds(|of| of.waiting)),
        ("ended, kept", totals.retained.to_string()),
        ("in memory", format!("{} (what state_max bounds)", size(totals.state_bytes))),
    ];
    lines.extend(reader.notes().iter().map(|note| ("note", note.clone())));
    let lines = lines.into_iter().map(|(name, value)| format!("  {name:<14}{value}\n"));
    format!("{} is sound\n{}", reader.path().display(), lines.collect::<String>())
}

fn document(reader: &SqliteReader, examined: &Examined) -> Value {
    let totals = examined.engine.totals();
    let kinds = |pick: fn(KindTotals) -> usize| {
        let counts = Kind::ALL.map(|kind| (kind.as_str().to_owned(), json!(pick(totals.of(kind)))));
        Value::Object(Map::from_iter(counts))
    };
    let sizes = examined.sizes;
    json!({
        "sound": true,
        "path": reader.path().display().to_string(),
        "in_use": reader.in_use() != InUse::No,
        "process": match reader.in_use() {
            InUse::No => None,
            InUse::By { process } => process,
        },
        "format": {"tables": reader.schema_version(), "records": FORMAT_VERSION},
        "epoch": examined.epoch.0,
        "position": examined.head.0,
        "last_token": examined.engine.last_token().0,
        "last_change": shown(examined.wall),
        "service_time_us": examined.at.0,
        "checkpoint": examined.checkpoint.map(|upto| json!({"position": upto.0, "bytes": sizes.checkpoint_bytes})),
        "tail": {
            "batches": examined.tail_batches,
            "changes": examined.tail_changes,
            "bytes": sizes.tail_bytes,
        },
        "disk_bytes": sizes.file_bytes,
        "resources": kinds(|of| of.resources),
        "held": kinds(|of| of.holding),
        "waiting": kinds(|of| of.waiting),
        "retained": totals.retained,
        "state_bytes": totals.state_bytes,
        "notes": reader.notes(),
    })
}

/// A moment to show, to the second. `None` before anything was written.
fn shown(wall: Wall) -> Option<String> {
    let seconds = i64::try_from(wall.0 / 1_000_000).ok().filter(|&seconds| seconds > 0)?;
    Timestamp::from_second(seconds).ok().map(|time| time.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_shown_for_people() {
        assert_eq!(shown(Wall(0)), None);
        assert_eq!(shown(Wall(1_782_864_000_999_999)).as_deref(), Some("2026-07-01T00:00:00Z"));
        assert_eq!(shown(Wall(u64::MAX)), None, "no calendar reaches that far");
    }
}
