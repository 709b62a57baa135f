//! `demo`: a throw-away server with actors that contend, for a newcomer to look at.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use leasehold_client::{Client, Error};
use serde_json::json;

use super::Failed;
use super::args::DemoArgs;

const POOL: &str = "6b1d2f0e-93c4-4a57-8e21-0d7f5ac3b9e4";

/// The server; it ends with this.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(super) async fn demo(args: &DemoArgs) -> Result<(), Failed> {
    let (_server, url) = start(&args.listen)?;
    println!("{url}/");
    eprintln!("leasehold: open the address above in a browser; nothing is kept. Ctrl-C ends it.");
    eprintln!("leasehold: try `leasehold --help` with LEASEHOLD_URL={url}, such as: leasehold ls --url {url}");
    let first = Client::builder().urls(&url).name("setup").build()?;
    first.call("PUT", &format!("/l/{POOL}"), Some(&json!({"count": 3}))).await?;
    let mut actors = tokio::task::JoinSet::new();
    for name in ["ann@laptop", "ben@laptop", "nightly@ci"] {
        let client = Client::builder().urls(&url).name(name).build()?;
        actors.spawn(async move { play(|| Ok(client.lock("deploy")), 3..9, 1..4).await });
    }
    for (number, name) in ["train-7", "train-8", "evaluate-2", "render-1", "render-2"].into_iter().enumerate() {
        let client = first.clone();
        let resource = if number % 2 == 0 { "gpu-0" } else { "gpu-1" };
        actors.spawn(
            async move { play(|| Ok(client.claim(resource).metadata(json!({"job": name}))), 4..12, 1..3).await },
        );
    }
    for _ in 0..6 {
        let client = first.clone();
        actors.spawn(async move { play(|| Ok(client.pool(POOL)?.borrow()), 2..8, 1..3).await });
    }
    let over = async {
        match args.duration {
            Some(span) => tokio::time::sleep(span).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = over => Ok(()),
        _ = tokio::signal::ctrl_c() => Ok(()),
        _ = actors.join_next() => Err(Failed::Refused("the server of the demo is gone".into())),
    }
}

/// Asks, works, gives back and rests, for ever.
async fn play<F>(request: F, work_s: std::ops::Range<u32>, rest_s: std::ops::Range<u32>) -> Result<(), Error>
where
    F: Fn() -> Result<leasehold_client::Request, Error>,
{
    let some = |range: &std::ops::Range<u32>| {
        Duration::from_secs(range.start.into())
            .mul_f64(1.0 + rand::random::<f64>() * f64::from(range.end - range.start) / f64::from(range.start))
    };
    loop {
        let lease = request()?.ttl(Duration::from_secs(10)).unreachable_after(Duration::from_secs(5)).acquire().await?;
        tokio::time::sleep(some(&work_s)).await;
        lease.release().await?;
        tokio::time::sleep(some(&rest_s)).await;
    }
}

fn start(listen: &str) -> Result<(Server, String), Failed> {
    let failed = |error: std::io::Error| Failed::Refused(format!("the server of the demo cannot be started: {error}"));
    let ourselves = std::env::current_exe().map_err(failed)?;
    let mut command = Command::new(ourselves);
    command
        .args(["serve", "--memory", "--listen", listen])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("LEASEHOLD_")) {
        command.env_remove(name);
    }
    let mut server = Server(command.spawn().map_err(failed)?);
    let mut log = BufReader::new(server.0.stderr.take().expect("it is piped"));
    let mut said = String::new();
    loop {
        let mut line = String::new();
        if log.read_line(&mut line).map_err(failed)? == 0 {
            return Err(Failed::Refused(format!("the server of the demo ended: {}", said.trim_end())));
        }
        if let Some((_, rest)) = line.split_once("listening on ") {
            let url = rest.split([',', ' ', '\n']).next().unwrap_or_default().to_owned();
            // Its log is of no interest, but a thread has to read it.
            std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
            return Ok((server, url));
        }
        said.push_str(&line);
    }
}
