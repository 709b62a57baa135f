//! `pool`, `revoke` and `proof-key`: commands that change resources, or the service.

use leasehold_client::{Client, Reply};
use serde_json::json;

use super::args::{
    Common, Output, PoolArgs, PoolCommand, PoolCreateArgs, PoolResizeArgs, ProofKeyRotateArgs, RevokeArgs,
};
use super::look::refused;
use super::{Failed, print_json};

pub(super) async fn pool(client: &Client, command: &PoolCommand) -> Result<(), Failed> {
    match command {
        PoolCommand::Create(args) => create(client, args).await,
        PoolCommand::Resize(args) => resize(client, args).await,
        PoolCommand::Show(args) => show(client, args).await,
        PoolCommand::Delete(args) => delete(client, args).await,
    }
}

impl PoolCommand {
    pub(super) fn common(&self) -> &Common {
        match self {
            PoolCommand::Create(args) => &args.common,
            PoolCommand::Resize(args) => &args.common,
            PoolCommand::Show(args) | PoolCommand::Delete(args) => &args.common,
        }
    }
}

async fn create(client: &Client, args: &PoolCreateArgs) -> Result<(), Failed> {
    let id = match &args.id {
        Some(id) => id.clone(),
        None => random_uuid(),
    };
    client.pool(&id)?;
    if client.call("GET", &format!("/l/{id}"), None).await?.is_success() {
        return Err(Failed::Refused("there is such a pool already; `leasehold pool resize` changes it".into()));
    }
    let made = client.call("PUT", &format!("/l/{id}"), Some(&json!({"count": args.count}))).await?;
    if !made.is_success() {
        return Err(refused(&made));
    }
    match args.common.output {
        Output::Json => print_json(made.json()),
        Output::Table => {
            println!("{id}");
            Ok(())
        }
    }
}

async fn resize(client: &Client, args: &PoolResizeArgs) -> Result<(), Failed> {
    client.pool(&args.id)?;
    let known = client.call("GET", &format!("/l/{}", args.id), None).await?;
    if !known.is_success() {
        return Err(refused(&known));
    }
    print(&args.common, &client.call("PUT", &format!("/l/{}", args.id), Some(&json!({"count": args.count}))).await?)
}

async fn show(client: &Client, args: &PoolArgs) -> Result<(), Failed> {
    client.pool(&args.id)?;
    print(&args.common, &client.call("GET", &format!("/l/{}", args.id), None).await?)
}

async fn delete(client: &Client, args: &PoolArgs) -> Result<(), Failed> {
    client.pool(&args.id)?;
    let reply = client.call("DELETE", &format!("/l/{}", args.id), None).await?;
    if !reply.is_success() {
        return Err(refused(&reply));
    }
    if args.common.output == Output::Json {
        print_json(reply.json())?;
    }
    if reply.json()["deleted"] == true { Ok(()) } else { Err(Failed::Refused("there is no such pool".into())) }
}

fn print(common: &Common, reply: &Reply) -> Result<(), Failed> {
    if !reply.is_success() {
        return Err(refused(reply));
    }
    if common.output == Output::Json {
        return print_json(reply.json());
    }
    let pool = reply.json();
    outln!("{} of {} in use, {} available", pool["in_use"], pool["count"], pool["available"]);
    Ok(())
}

pub(super) async fn revoke(client: &Client, args: &RevokeArgs) -> Result<(), Failed> {
    let body = json!({"key": args.key, "token": args.grant});
    let reply = client.call("POST", "/v1/admin/revoke", Some(&body)).await?;
    if !reply.is_success() {
        return Err(refused(&reply));
    }
    if args.common.output == Output::Json {
        print_json(reply.json())?;
    }
    if reply.json()["revoked"] == true { Ok(()) } else { Err(Failed::Refused("that grant had ended before".into())) }
}

pub(super) async fn rotate_proof_key(client: &Client, args: &ProofKeyRotateArgs) -> Result<(), Failed> {
    let reply = client.call("POST", "/v1/admin/proof-key", None).await?;
    if !reply.is_success() {
        return Err(refused(&reply));
    }
    if args.common.output == Output::Json {
        print_json(reply.json())?;
    } else {
        out!("proofs are signed with the key {} from now on\n", reply.json()["kid"].as_str().unwrap_or("?"));
    }
    Ok(())
}

/// A UUID of version 4.
fn random_uuid() -> String {
    let random = rand::random::<u128>() & !(0xf << 76) & !(0x3 << 62) | 4 << 76 | 0x2 << 62;
    let hex = format!("{random:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}
