//! Stands in the queue of a resource: `cargo run -p leasehold-client --example claim -- gpu-7`.

use std::time::Duration;

use leasehold_client::{Client, Error};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let resource = std::env::args().nth(1).unwrap_or_else(|| "example".to_owned());
    let client = Client::from_env()?;
    let request = client.claim(&resource).metadata("the example".into()).on_progress(|progress| {
        eprintln!("place {:?} in the queue after {:.0?}", progress.queue_position, progress.elapsed);
    });
    if let Some(lease) = request.try_acquire().await? {
        println!("free; token {}", lease.token()?);
        lease.release().await?;
        return Ok(());
    }
    let lease = request.wait(Duration::from_mins(10)).acquire().await?;
    println!("after others; token {}", lease.token()?);
    lease.release().await?;
    Ok(())
}
