//! `status`, `ls`, `show` and `history`: leases, queues and past events.

use std::fmt::Write as _;
use std::time::Duration;

use leasehold_client::text::printable;
use leasehold_client::{Client, Error, Reply};
use serde_json::{Value, json};

use super::args::{HistoryArgs, LsArgs, Output, ShowArgs, StatusArgs};
use super::table::{Table, span};
use super::{Failed, encode, get, print_json, version};

pub(super) async fn status(client: &Client, args: &StatusArgs) -> Result<(), Failed> {
    get(client, "/healthz").await?;
    let ready = client.call("GET", "/readyz", None).await?;
    let page = get(client, "/v1/observe/resources?limit=1").await?;
    let counts = &page.json()["counts"];
    let status = json!({
        "url": args.common.connect.shown(),
        "version": version(client).await,
        "ready": ready.is_success(),
        "position": page.position().to_string(),
        "resources": page.json()["total"],
        "counts": counts,
    });
    if args.common.output == Output::Json {
        return print_json(&status);
    }
    let ready = if ready.is_success() { "ok".to_owned() } else { format!("not ready: {}", ready.reason()) };
    outln!("service    {}", printable(status["url"].as_str().unwrap_or_default()));
    outln!("version    {}", text(&status, "version"));
    outln!("state      {ready}");
    outln!("position   {}", page.position());
    let number = |name: &str| counts[name].as_u64().unwrap_or(0);
    outln!("resources  {} pools, {} claims, {} locks", number("pool"), number("claim"), number("lock"));
    outln!(
        "           {} free, {} held, {} contended, {} in grace, {} lapsed",
        number("free"),
        number("held"),
        number("contended"),
        number("grace"),
        number("lapsed")
    );
    Ok(())
}

pub(super) async fn ls(client: &Client, args: &LsArgs) -> Result<(), Failed> {
    let mut query = format!("sort={}", encode(&args.sort));
    for (name, value) in [("q", &args.part), ("kind", &args.kind), ("state", &args.state)] {
        if let Some(value) = value {
            let _ = write!(query, "&{name}={}", encode(value));
        }
    }
    let mut resources: Vec<Value> = Vec::new();
    let mut after = String::new();
    while resources.len() < args.limit {
        let limit = (args.limit - resources.len()).min(500);
        let page = get(client, &format!("/v1/observe/resources?{query}&limit={limit}{after}")).await?;
        resources.extend(page.json()["resources"].as_array().into_iter().flatten().cloned());
        match page.json()["next"].as_str() {
            Some(next) => after = format!("&after={}", encode(next)),
            None => break,
        }
    }
    if args.common.output == Output::Json {
        return print_json(&Value::from(resources));
    }
    let mut table = Table::new(&["KEY", "STATE", "IN USE", "WAITING", "HOLDER", "EXPIRES IN"]);
    for resource in &resources {
        table.row(vec![
            text(resource, "key"),
            text(resource, "state"),
            format!("{}/{}", resource["in_use"], resource["capacity"]),
            resource["waiting"].to_string(),
            text(resource, "holder"),
            span(resource["next_expiry_s"].as_f64()),
        ]);
    }
    table.print();
    Ok(())
}

pub(super) async fn show(client: &Client, args: &ShowArgs) -> Result<(), Failed> {
    let reply = get_about(client, &args.key, "").await?;
    let resource = reply.json();
    if args.common.output == Output::Json {
        return print_json(resource);
    }
    outln!(
        "{}  {}, {} of {} in use, {} waiting, latest token {}",
        text(resource, "key"),
        text(resource, "state"),
        resource["in_use"],
        resource["capacity"],
        resource["waiting"],
        resource["latest_token"]
    );
    let mut holders = Table::new(&["SLOT", "TOKEN", "HOLDER", "STATE", "HELD FOR", "EXPIRES IN"]);
    for holder in list(resource, "holders") {
        holders.row(vec![
            holder["slot"].to_string(),
            holder["token"].to_string(),
            named(holder),
            text(holder, "state"),
            span(holder["held_s"].as_f64()),
            span(holder["remaining_s"].as_f64()),
        ]);
    }
    outln!();
    holders.print();
    if !list(resource, "queue").is_empty() {
        let mut queue = Table::new(&["PLACE", "WAITER", "WAITING FOR"]);
        for waiter in list(resource, "queue") {
            queue.row(vec![waiter["place"].to_string(), named(waiter), span(waiter["waiting_s"].as_f64())]);
        }
        outln!();
        queue.print();
    }
    Ok(())
}

pub(super) async fn history(client: &Client, args: &HistoryArgs) -> Result<(), Failed> {
    let reply = get_about(client, &args.key, &format!("/history?limit={}", args.limit)).await?;
    if args.common.output == Output::Json {
        return print_json(reply.json());
    }
    for event in list(reply.json(), "events") {
        outln!("{}", line_of(event));
    }
    Ok(())
}

/// A resource by its key, or by its plain name: a lock, else a claimed resource.
async fn get_about(client: &Client, key: &str, rest: &str) -> Result<Reply, Failed> {
    let target = |key: &str| format!("/v1/observe/resources/{}{rest}", encode(key));
    if !key.contains(':') {
        for kind in ["lock", "claim"] {
            let reply = client.call("GET", &target(&format!("{kind}:{key}")), None).await?;
            if reply.is_success() {
                return Ok(reply);
            }
        }
    }
    get(client, &target(key)).await
}

/// An event in one line.
pub(super) fn line_of(event: &Value) -> String {
    let at = event["at_unix"].as_f64().and_then(|seconds| Duration::try_from_secs_f64(seconds.floor()).ok());
    let at = at.and_then(|since_1970| {
        jiff::Timestamp::UNIX_EPOCH.checked_add(jiff::SignedDuration::try_from(since_1970).ok()?).ok()
    });
    let at = at.map_or("-".to_owned(), |at| at.to_string());
    let mut line = format!("{at}  {:<12} {}", text(event, "event"), text(event, "key"));
    if let Some(client) = event["client"].as_str() {
        let _ = write!(line, "  {}", printable(client));
    }
    for (name, word) in [("token", "token"), ("slot", "slot"), ("waited_s", "waited"), ("held_s", "held")] {
        match &event[name] {
            Value::Null => {}
            value if name.ends_with("_s") => {
                let _ = write!(line, "  {word} {}", span(value.as_f64()));
            }
            value => {
                let _ = write!(line, "  {word} {value}");
            }
        }
    }
    line
}

fn text(value: &Value, member: &str) -> String {
    value[member].as_str().map_or_else(|| "-".to_owned(), printable)
}

fn list<'a>(value: &'a Value, member: &str) -> &'a [Value] {
    value[member].as_array().map_or(&[], Vec::as_slice)
}

/// By any name it has.
fn named(value: &Value) -> String {
    let metadata = || match &value["metadata"] {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string().chars().take(60).collect()),
    };
    let name = value["client"].as_str().map(str::to_owned).or_else(metadata);
    name.or_else(|| value["claim"].as_str().map(str::to_owned)).map_or_else(|| "-".to_owned(), |name| printable(&name))
}

/// For callers of this module that only want the error.
pub(super) fn refused(reply: &Reply) -> Failed {
    Failed::Refused(format!("{}: {} (request {})", reply.status(), reply.reason(), reply.request_id()))
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        Failed::Client(error)
    }
}
