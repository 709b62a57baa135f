//! Borrows a slot of a pool: `cargo run -p leasehold-client --example pool -- UUID`. Without an id it makes a pool of
//! its own.

use std::time::Duration;

use leasehold_client::{Client, Error};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let client = Client::from_env()?;
    let given = std::env::args().nth(1);
    let id = given.clone().unwrap_or_else(random_uuid);
    if given.is_none() {
        client.call("PUT", &format!("/l/{id}"), Some(&json!({"count": 2}))).await?;
    }
    let lease = client.pool(&id)?.borrow().ttl(Duration::from_secs(10)).wait(Duration::from_mins(1)).acquire().await?;
    println!(
        "slot {:?} with token {}, lost in {:?} if it is not renewed",
        lease.slot(),
        lease.token()?,
        lease.remaining()
    );
    println!("{}", lease.release().await?.word());
    Ok(())
}

fn random_uuid() -> String {
    let hex = format!("{:032x}", rand::random::<u128>());
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}
