//! `leasehold prune`: lists the claims and resources that a filter picks from a data directory, and with `--yes`
//! removes them. The way out when a directory has grown larger than a server may be. The journal knows how to write a
//! removal.

use std::fmt::Write as _;
use std::time::SystemTime;

use leasehold_engine::{ClaimFact, Kind, ResourceFact, ResourceKey, Status, Time, Wall};
use leasehold_journal::{Candidate, InUse, Pruned, SqliteReader, pick, prune};
use leasehold_server::duration::{format_us, parse_setting};

use crate::cli::PruneArgs;
use crate::data;
use crate::exit::{Exit, Failure};
use crate::serve::PARTITION;
use crate::size;

/// Lines shown unless all of them are asked for.
const SHOWN_MAX: usize = 20;

pub(crate) fn run(args: &PruneArgs) -> Exit {
    match look(args) {
        Ok(said) => {
            out!("{said}");
            Exit::Done
        }
        Err(failure) => failure.told(),
    }
}

fn look(args: &PruneArgs) -> Result<String, Failure> {
    let filter = Filter::of(args)?;
    let directory = data::directory(args.data.as_deref())?;
    let reader = SqliteReader::of_directory(&directory, PARTITION)?;
    if let (true, InUse::By { process }) = (args.yes, reader.in_use()) {
        let by = process.map_or_else(|| "another process".to_owned(), |process| format!("process {process}"));
        let sentence = format!("{} is in use by {by}; stop the server first", directory.display());
        return Err(Failure { exit: Exit::Locked, sentence });
    }
    let mut said = String::new();
    let (mut picked_bytes, mut left_out) = (0, 0);
    let picked = pick(&reader, |candidate, at| {
        let wanted = filter.wants(candidate, at);
        if wanted {
            picked_bytes += bytes_of(candidate);
            if args.all || said.lines().count() < SHOWN_MAX {
                said.push_str(&line(candidate, at));
            } else {
                left_out += 1;
            }
        }
        wanted
    })?;
    drop(reader);
    if left_out > 0 {
        writeln!(said, "… and {left_out} more; --all lists them").expect("a string takes it");
    }
    let (claims, resources) = (picked.claims.len(), picked.resources.len());
    let what = format!("{} and {}", counted(claims, "claim"), counted(resources, "unused resource"));
    if !args.yes {
        let (all, gone) = (size::rounded(picked.state_bytes), size::rounded(picked_bytes));
        return Ok(
            said + &format!("{what} match, {gone} of {all} in memory; nothing was changed, --yes removes them\n")
        );
    }
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let wall = Wall(u64::try_from(since_1970.as_micros()).unwrap_or(u64::MAX));
    let Pruned { state_bytes_before, state_bytes_after, .. } = prune(&directory, PARTITION, picked, wall)?;
    let (before, after) = (size::rounded(state_bytes_before), size::rounded(state_bytes_after));
    Ok(said + &format!("{what} removed; {before} in memory before, {after} now\n"))
}

/// The filter: every part that is given must match.
#[derive(Debug, Default, PartialEq, Eq)]
struct Filter {
    resource: Option<String>,
    kind: Option<Kind>,
    status: Option<WantedStatus>,
    owner: Option<String>,
    older_than_us: Option<u64>,
    metadata_over: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WantedStatus {
    Waiting,
    Active,
    Ended,
    Unused,
}

impl Filter {
    fn of(args: &PruneArgs) -> Result<Filter, Failure> {
        let one_of = |flag: &str, allowed: &str, given: &str| {
            Failure::usage(format!("{flag} must be one of {allowed}, but is {given:?}"))
        };
        let kind = |text: &String| {
            let found = Kind::ALL.into_iter().find(|kind| kind.as_str() == text);
            found.ok_or_else(|| one_of("--kind", "pool, claim, lock", text))
        };
        let status = |text: &String| match &**text {
            "waiting" => Ok(WantedStatus::Waiting),
            "active" => Ok(WantedStatus::Active),
            "ended" => Ok(WantedStatus::Ended),
            "unused" => Ok(WantedStatus::Unused),
            _ => Err(one_of("--status", "waiting, active, ended, unused", text)),
        };
        let duration = |text: &String| {
            let problem = |error| Failure::usage(format!("--older-than must be a duration, but {text:?} {error}"));
            parse_setting(text).map_err(problem)
        };
        let bytes = |text: &String| {
            let problem = |error| Failure::usage(format!("--metadata-over must be a size, but {text:?} {error}"));
            size::parse(text).map_err(problem)
        };
        let filter = Filter {
            resource: args.resource.clone(),
            kind: args.kind.as_ref().map(kind).transpose()?,
            status: args.status.as_ref().map(status).transpose()?,
            owner: args.owner.clone(),
            older_than_us: args.older_than.as_ref().map(duration).transpose()?,
            metadata_over: args.metadata_over.as_ref().map(bytes).transpose()?,
        };
        if filter == Filter::default() {
            return Err(Failure::usage(
                "prune needs a filter, any of --resource, --kind, --status, --owner, --older-than, --metadata-over",
            ));
        }
        Ok(filter)
    }

    fn wants(&self, candidate: Candidate<'_>, at: Time) -> bool {
        let key = key_of(candidate);
        let is_of_resource = |prefix: &String| key.name().is_some_and(|name| name.starts_with(prefix.as_str()));
        if !self.resource.as_ref().is_none_or(is_of_resource) || self.kind.is_some_and(|kind| kind != key.kind()) {
            return false;
        }
        match candidate {
            Candidate::Unused(_) => {
                // It has no owner, no age and no metadata, so filters on those never match it.
                self.status.is_none_or(|status| status == WantedStatus::Unused)
                    && self.owner.is_none()
                    && self.older_than_us.is_none()
                    && self.metadata_over.is_none()
            }
            Candidate::Claim { fact, metadata_bytes } => {
                self.status.is_none_or(|status| status == status_of(fact))
                    && self.owner.as_ref().is_none_or(|owner| fact.client.as_deref() == Some(owner))
                    && self.older_than_us.is_none_or(|older_us| at.since(since(fact)) >= older_us)
                    && self.metadata_over.is_none_or(|over| metadata_bytes as u64 > over)
            }
        }
    }
}

fn status_of(fact: &ClaimFact) -> WantedStatus {
    match fact.status {
        Status::Waiting => WantedStatus::Waiting,
        Status::Active | Status::Grace => WantedStatus::Active,
        Status::Lapsed | Status::Ended(_) => WantedStatus::Ended,
    }
}

/// Since when it has had its state: ended, or requested.
fn since(fact: &ClaimFact) -> Time {
    fact.ended.map_or(fact.created.at, |ended| ended.at)
}

fn key_of(candidate: Candidate<'_>) -> &ResourceKey {
    match candidate {
        Candidate::Claim { fact: ClaimFact { resource, .. }, .. }
        | Candidate::Unused(ResourceFact { resource, .. }) => resource,
    }
}

fn bytes_of(candidate: Candidate<'_>) -> u64 {
    use leasehold_engine::bytes;
    match candidate {
        Candidate::Claim { fact, metadata_bytes } => {
            let metadata = if metadata_bytes > 0 { bytes::text(metadata_bytes) } else { 0 };
            let texts = bytes::Texts {
                client: fact.client.as_deref(),
                principal: fact.principal.as_deref(),
                holder: fact.particulars.holder.as_deref(),
                key: fact.key.as_ref().map(|key| &*key.name),
                metadata: None,
                is_rare: fact.principal.is_some() || !fact.particulars.is_empty(),
            };
            bytes::of_claim(fact.resource.kind(), &texts) + metadata
        }
        Candidate::Unused(fact) => bytes::of_resource(&fact.resource, fact.label.as_deref()),
    }
}

/// A pool's id and its leases' are credentials, so of a pool nothing but its kind is shown.
fn line(candidate: Candidate<'_>, at: Time) -> String {
    let key = key_of(candidate);
    let name = key.name().map_or_else(String::new, |name| format!(" {name:?}"));
    let kind = key.kind().as_str();
    match candidate {
        Candidate::Unused(_) => format!("{kind}{name}: registered, not in use\n"),
        Candidate::Claim { fact, metadata_bytes } => {
            let status = match fact.status {
                Status::Waiting => "waiting",
                Status::Active => "active",
                Status::Grace => "in grace",
                Status::Lapsed => "lapsed",
                Status::Ended(how) => how.as_str(),
            };
            let owner = fact.client.as_ref().map_or_else(String::new, |client| format!(", of {client:?}"));
            let metadata = match metadata_bytes {
                0 => String::new(),
                bytes => format!(", {} of metadata", size::rounded(bytes as u64)),
            };
            let age = format_us(at.since(since(fact)) / 1_000_000 * 1_000_000);
            format!("{kind}{name}: {status} for {age}{owner}{metadata}\n")
        }
    }
}

fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}
