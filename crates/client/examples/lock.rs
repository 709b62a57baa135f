//! Holds a lock for a while: `cargo run -p leasehold-client --example lock -- backup 5`.

use std::time::Duration;

use leasehold_client::{Client, Error};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let mut args = std::env::args().skip(1);
    let name = args.next().unwrap_or_else(|| "example".to_owned());
    let seconds = args.next().and_then(|text| text.parse().ok()).unwrap_or(5);
    let client = Client::from_env()?;
    let request = client.lock(&name).wait(Duration::from_mins(10)).on_progress(|progress| {
        eprintln!("waiting for {:.0?}, held by {}", progress.elapsed, progress.holders.join(", "));
    });
    let lease = request.acquire().await?;
    println!("holding {name} with token {}", lease.token()?);
    lease.run(tokio::time::sleep(Duration::from_secs(seconds))).await?;
    println!("{}", lease.release().await?.word());
    Ok(())
}
