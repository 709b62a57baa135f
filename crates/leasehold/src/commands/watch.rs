//! `watch`: everything that happens, live, going on after the last event when the line breaks off.

use std::io::Write as _;
use std::time::Duration;

use leasehold_client::text::printable;
use leasehold_client::{Client, Error};

use super::Failed;
use super::args::{Output, WatchArgs};
use super::look::line_of;

pub(super) async fn watch(client: &Client, args: &WatchArgs) -> Result<(), Failed> {
    let mut after = args.after.clone();
    let mut told = 0;
    let mut failures = 0;
    loop {
        let opened = client.watch(args.resource.as_deref(), args.kind.as_deref(), after.as_deref()).await;
        let mut stream = match opened {
            Ok(stream) => stream,
            // One that was open before may come back.
            Err(Error::Unavailable(trouble)) if told > 0 || after.is_some() => {
                failures += 1;
                if failures == 1 {
                    eprintln!("leasehold: {trouble}; trying again");
                }
                tokio::time::sleep(Duration::from_millis(500)).await;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        failures = 0;
        while let Some(event) = stream.next().await {
            after = event.id.clone().or(after);
            if matches!(&*event.name, "hello" | "gap" | "lagging" | "signed-out") {
                if event.name != "hello" {
                    eprintln!("leasehold: {}: {}", event.name, printable(&event.data.to_string()));
                }
                continue;
            }
            let line = match args.common.output {
                Output::Table => line_of(&event.data),
                Output::Json => event.data.to_string(),
            };
            // The reader of a pipe may have gone, as `head` does.
            if writeln!(std::io::stdout(), "{line}").is_err() {
                return Ok(());
            }
            told += 1;
            if args.count.is_some_and(|count| told >= count) {
                return Ok(());
            }
        }
    }
}
