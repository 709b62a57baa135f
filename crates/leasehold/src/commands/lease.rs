//! `acquire`, `renew` and `release`, for scripts that hold a lease over several commands. `acquire` prints the handle
//! that the others want: a credential.

use std::fmt::Write as _;
use std::io::Read as _;

use leasehold_client::{Client, Error, Handover, Released};
use serde_json::json;

use super::args::{AcquireArgs, Common, HandleArgs, Output};
use super::{Failed, print_json};

/// A prefix that tells a handle from other words.
const PREFIX: &str = "lh1.";

pub(super) async fn acquire(client: &Client, args: &AcquireArgs) -> Result<(), Failed> {
    let request = match (&args.lock, &args.claim, &args.pool) {
        (Some(lock), _, _) => client.lock(lock),
        (_, Some(resource), _) => client.claim(resource),
        (_, _, Some(pool)) => client.pool(pool)?.borrow(),
        (None, None, None) => return Err(Failed::Usage("one of --lock, --claim and --pool is needed".into())),
    };
    let request = request.ttl(args.ttl).wait(args.wait).unreachable_after(std::time::Duration::from_secs(2));
    let lease = request.acquire().await?;
    let handover = lease.hand_over().await?;
    print_handle(&args.common, &handover)
}

pub(super) async fn renew(client: &Client, args: &HandleArgs) -> Result<(), Failed> {
    let renewed = client.renew(&read_handle(args)?).await?;
    print_handle(&args.common, &renewed)
}

pub(super) async fn release(client: &Client, args: &HandleArgs) -> Result<(), Failed> {
    let released = client.release(read_handle(args)?).await?;
    if args.common.output == Output::Json {
        print_json(&json!({"result": released.word()}))?;
    }
    match released {
        Released::Released => Ok(()),
        Released::EndedBefore => Err(Failed::Refused("the lease had ended before".into())),
        Released::Unknown => {
            Err(Failed::Refused("the service did not say; the lease is free when its ttl is over".into()))
        }
    }
}

fn print_handle(common: &Common, handover: &Handover) -> Result<(), Failed> {
    let handle = write_handle(handover);
    if common.output == Output::Table {
        println!("{handle}");
        return Ok(());
    }
    print_json(&json!({
        "handle": handle,
        "kind": handover.kind().word(),
        "token": handover.token(),
        "slot": handover.slot(),
        "ttl_s": handover.terms().length.as_secs_f64(),
    }))
}

fn write_handle(handover: &Handover) -> String {
    let json = serde_json::to_vec(handover).expect("a handover is made of text and numbers");
    json.iter().fold(PREFIX.to_owned(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn read_handle(args: &HandleArgs) -> Result<Handover, Failed> {
    let mut text = args.handle.clone();
    if text == "-" {
        text.clear();
        std::io::stdin().take(65_536).read_to_string(&mut text).map_err(|error| Failed::Usage(error.to_string()))?;
    }
    parse_handle(text.trim()).ok_or_else(|| Failed::Usage("that is no handle that `leasehold acquire` printed".into()))
}

fn parse_handle(text: &str) -> Option<Handover> {
    let hex = text.strip_prefix(PREFIX)?.as_bytes();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Option<Vec<u8>> = hex.chunks(2).map(|pair| (pair.len() == 2).then(|| byte(pair)).flatten()).collect();
    serde_json::from_slice(&bytes?).ok()
}

/// The exit code of scripts that wait for others.
pub(super) fn is_held_by_others(error: &Error) -> bool {
    matches!(error, Error::Conflict(_) | Error::Timeout { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_handles_are_handles() {
        for text in ["", "lh1.", "lh1.0", "lh1.zz", "lh1.7b7d", "lh2.7b7d", "\u{e9}"] {
            assert!(parse_handle(text).is_none(), "{text:?}");
        }
    }
}
