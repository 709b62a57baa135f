//! The questions that fronts put to the engine. They speak for callers that know nothing of claims, so that one call of
//! theirs becomes a few of these.

use std::sync::Arc;

use leasehold_engine::{ClaimId, ClaimView, Command, HoldingView, Refusal, Reply, ResourceKey, Update, Wish};

use super::{Envelope, ask, denial, unserved};
use crate::driver::Handle;
use crate::http::{Problem, RequestId};

/// Asks for a slot: the claim that has it, or a refusal for the front to word. Refusals because of a limit are worded
/// here, alike for all fronts.
pub(super) async fn acquire<'a>(
    driver: &Handle,
    command: Command,
    id: &'a RequestId,
) -> Result<(Envelope<'a>, Result<Box<ClaimView>, Refusal>), Problem> {
    let (envelope, answer) = ask(driver, command.into(), id).await;
    let refusal = match answer {
        Ok(Reply::Claim(view)) => return Ok((envelope, Ok(view))),
        Ok(other) => unreachable!("no claim is answered with {other:?}"),
        Err(denial) => unserved(denial)?,
    };
    match denial::past_a_limit(&refusal) {
        Some(problem) => Err(problem),
        None => Ok((envelope, Err(refusal))),
    }
}

/// The resource, its holder, and the claim of this key.
pub(super) async fn holding<'a>(
    driver: &Handle,
    resource: ResourceKey,
    key: Option<Arc<str>>,
    id: &'a RequestId,
) -> Result<(Envelope<'a>, Box<HoldingView>), Problem> {
    let (envelope, answer) = ask(driver, Command::ViewHolding { resource, key }.into(), id).await;
    match answer {
        Ok(Reply::Holding(view)) => Ok((envelope, view)),
        Ok(other) => unreachable!("no look at a resource is answered with {other:?}"),
        Err(denial) => {
            let refusal = unserved(denial)?;
            unreachable!("a look at a resource is not refused: {refusal:?}")
        }
    }
}

/// Ends a claim, or says that it had ended since it was looked at, and how if that is still known.
pub(super) async fn end<'a>(
    driver: &Handle,
    claim: ClaimId,
    status: Wish,
    id: &'a RequestId,
) -> Result<(Envelope<'a>, Result<(), Refusal>), Problem> {
    let update = Update { status: Some(status), ..Update::default() };
    let (envelope, answer) = ask(driver, Command::Update { claim, update }.into(), id).await;
    match answer {
        Ok(Reply::ClaimEnded(_)) => Ok((envelope, Ok(()))),
        Ok(other) => unreachable!("no end of a claim is answered with {other:?}"),
        Err(denial) => match unserved(denial)? {
            refusal @ (Refusal::Ended(_) | Refusal::NoSuchClaim) => Ok((envelope, Err(refusal))),
            other => unreachable!("the end of a claim is not refused with {other:?}"),
        },
    }
}
