//! `doctor`: checks a service as a newcomer would, step by step, and gives advice about what it finds.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use leasehold_client::text::printable;
use leasehold_client::{Client, Error};
use serde_json::{Value, json};

use super::args::{DoctorArgs, Output};
use super::table::is_coloured;
use super::{Failed, print_json};

/// Wall clocks decide nothing, but people compare them.
const CLOCK_TOLERANCE_S: f64 = 5.0;
const SLOW: Duration = Duration::from_millis(100);

struct Finding {
    what: &'static str,
    is_well: bool,
    says: String,
    /// The advice, where there is any.
    advice: Option<String>,
}

impl Finding {
    fn well(what: &'static str, says: impl Into<String>) -> Finding {
        Finding { what, is_well: true, says: says.into(), advice: None }
    }

    fn ill(what: &'static str, says: impl Into<String>, advice: impl Into<String>) -> Finding {
        Finding { what, is_well: false, says: says.into(), advice: Some(advice.into()) }
    }
}

pub(super) async fn doctor(client: &Client, args: &DoctorArgs) -> Result<(), Failed> {
    let mut findings =
        vec![Finding::well("address", format!("{} ({})", args.common.connect.shown(), args.common.connect.origin()))];
    let begun = Instant::now();
    if let Err(error) = client.call("GET", "/healthz", None).await {
        findings.push(unreachable(args, &error));
    } else {
        findings.push(Finding::well("reachable", format!("answers in {:?}", begun.elapsed())));
        findings.push(same_version(super::version(client).await.as_deref()));
        findings.push(readiness(client).await);
        findings.push(latency(client).await);
        findings.extend(sign_on(client).await);
        findings.extend(clock(client).await);
    }
    let is_well = findings.iter().all(|finding| finding.is_well);
    if args.common.output == Output::Json {
        let list = findings.iter().map(|finding| {
            json!({"check": finding.what, "ok": finding.is_well, "says": finding.says, "advice": finding.advice})
        });
        print_json(&list.collect::<Value>())?;
    } else {
        for Finding { what, is_well, says, advice } in &findings {
            let mark = match (is_well, is_coloured()) {
                (true, true) => "\x1b[32mok\x1b[0m  ",
                (true, false) => "ok  ",
                (false, true) => "\x1b[33mto do\x1b[0m ",
                (false, false) => "to do ",
            };
            outln!("{mark}{what:<12} {says}");
            if let Some(advice) = advice {
                outln!("      {advice}");
            }
        }
    }
    if is_well { Ok(()) } else { Err(Failed::Refused("something is to be done, see above".into())) }
}

/// An older service may not know what this program asks for.
fn same_version(theirs: Option<&str>) -> Finding {
    let ours = env!("CARGO_PKG_VERSION");
    match theirs {
        Some(theirs) if theirs == ours => Finding::well("version", format!("{ours}, as this program's")),
        Some(theirs) => Finding::well("version", format!("{}; this program is {ours}", printable(theirs))),
        None => Finding::ill(
            "version",
            "the service does not tell it",
            "this program may be newer, or something in between answers: compare with leasehold --version there",
        ),
    }
}

fn unreachable(args: &DoctorArgs, error: &Error) -> Finding {
    let sentence = args.common.connect.explain(error);
    let (says, advice) = sentence.split_once('\n').unwrap_or((&sentence, "see docs/operations.md"));
    Finding::ill("reachable", says, advice)
}

async fn readiness(client: &Client) -> Finding {
    match client.call("GET", "/readyz", None).await {
        Ok(reply) if reply.is_success() => Finding::well("ready", "changes become durable"),
        Ok(reply) => Finding::ill("ready", reply.reason(), "look at the service's log; its disk may be full or hang"),
        Err(error) => Finding::ill("ready", error.to_string(), "look at the service's log"),
    }
}

async fn latency(client: &Client) -> Finding {
    let mut spans = Vec::new();
    for _ in 0..5 {
        let begun = Instant::now();
        if client.call("GET", "/healthz", None).await.is_ok() {
            spans.push(begun.elapsed());
        }
    }
    spans.sort();
    match spans.get(spans.len() / 2) {
        Some(median) if *median <= SLOW => {
            Finding::well("latency", format!("{median:?} with a new connection each time"))
        }
        Some(median) => Finding::ill(
            "latency",
            format!("{median:?}"),
            "renewals are sent in time all the same; use a ttl of 10s or more",
        ),
        None => Finding::ill("latency", "no answer any more", "the network loses connections"),
    }
}

async fn sign_on(client: &Client) -> Vec<Finding> {
    let who = match client.call("GET", "/v1/whoami", None).await {
        Ok(reply) if reply.is_success() => reply,
        Ok(reply) if reply.status() == 401 => {
            let advice = "ask the operator for a token and name its file with --token-file or LEASEHOLD_TOKEN_FILE";
            return vec![Finding::ill("sign-on", reply.reason(), advice)];
        }
        Ok(reply) => return vec![Finding::ill("sign-on", reply.reason(), "see docs/sign-on.md")],
        Err(error) => return vec![Finding::ill("sign-on", error.to_string(), "see docs/sign-on.md")],
    };
    let who = who.json();
    if who["sign_on"] != true {
        return vec![Finding::well("sign-on", "none: every caller may do everything")];
    }
    let Some(name) = who["name"].as_str() else {
        let advice = "name a token's file with --token-file or LEASEHOLD_TOKEN_FILE";
        return vec![Finding::ill("sign-on", "the service takes you for an anonymous caller", advice)];
    };
    let actions: Vec<&str> = who["actions"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut findings = vec![Finding::well("sign-on", format!("you are {}", printable(name)))];
    findings.push(if actions.is_empty() {
        Finding::ill("permissions", "none", "the operator's policies give you nothing: leasehold policy explain")
    } else {
        Finding::well("permissions", printable(&actions.join(", ")))
    });
    findings
}

async fn clock(client: &Client) -> Option<Finding> {
    let reply =
        client.call("GET", "/v1/observe/series", None).await.ok().filter(leasehold_client::Reply::is_success)?;
    let series = reply.json();
    let seconds = f64::from(u32::try_from(series["grants"].as_array()?.len()).ok()?) * series["step_s"].as_f64()?;
    let theirs = series["from_unix"].as_f64()? + seconds;
    let ours = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs_f64();
    let apart = (theirs - ours).abs();
    Some(if apart <= CLOCK_TOLERANCE_S {
        Finding::well("clock", "shows the same time as this machine's")
    } else {
        let says = format!("{apart:.0} s apart from this machine's");
        Finding::ill(
            "clock",
            says,
            "leases do not depend on it, but times that are shown do: let both machines keep time (NTP)",
        )
    })
}
