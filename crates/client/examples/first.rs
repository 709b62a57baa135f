//! Takes the lock `first` and gives it back.

use leasehold_client::{Client, Error};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let client = Client::from_env()?;
    let lease = client.lock("first").acquire().await?;
    lease.check()?;
    println!("held by Rust, token {}", lease.token()?);
    lease.release().await?;
    Ok(())
}
