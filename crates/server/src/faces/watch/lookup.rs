//! The resource that a key stands for, and questions about it to the engine.

use http::StatusCode;
use leasehold_engine::{Command, Reply, ResourceKey};

use super::list;
use crate::code::Code;
use crate::driver::Handle;
use crate::faces::{Envelope, ask, unserved};
use crate::http::{Problem, RequestId};
use crate::watch::Observer;
use crate::watch::key::PublicKey;

/// Asks the engine. It can only refuse because it does not know the resource.
pub(super) async fn asked_of<'a>(
    driver: &Handle,
    command: Command,
    id: &'a RequestId,
) -> Result<(Envelope<'a>, Reply), Problem> {
    let (envelope, answer) = ask(driver, command.into(), id).await;
    match answer {
        Ok(answer) => Ok((envelope, answer)),
        Err(denial) => {
            let refusal = unserved(denial)?;
            assert_eq!(refusal, leasehold_engine::Refusal::NoSuchResource, "a read is refused for no other reason");
            Err(no_such_resource())
        }
    }
}

/// The resource a key stands for. A pool that no caller asked for lately is looked for among all pools.
pub(super) async fn resolve(
    observer: &Observer,
    driver: &Handle,
    key: &PublicKey,
) -> Result<Option<ResourceKey>, Problem> {
    match key {
        PublicKey::Named(resource) => Ok(Some(resource.clone())),
        PublicKey::Pool(digest) => match observer.digester().recall(*digest) {
            Some(pool) => Ok(Some(ResourceKey::Pool(pool))),
            None => list::find_pool(observer, driver, *digest).await,
        },
    }
}

pub(super) fn no_such_resource() -> Problem {
    let reason = "no such resource; a key is claim:NAME, lock:JOB or pool:DIGEST";
    Problem::new(StatusCode::NOT_FOUND, reason).coded(Code::NoSuchResource)
}
