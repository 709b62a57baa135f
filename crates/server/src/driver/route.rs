//! Where a command goes: to the partition of its resource, or of the claim that it names.

use leasehold_cluster::claim_id;
use leasehold_engine::{ClaimId, Command, Kind, ResourceKey};

/// The subject of a command, by which its partition is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose<'a> {
    Resource(&'a ResourceKey),
    Claim(ClaimId),
    /// Each partition answers for itself.
    Everything,
}

pub(super) fn whose(command: &Command) -> Whose<'_> {
    match command {
        Command::Configure { resource, .. }
        | Command::Unconfigure { resource }
        | Command::Pause { resource, .. }
        | Command::Resume { resource }
        | Command::ServeSlot { resource, .. }
        | Command::Renew { resource, .. }
        | Command::Return { resource, .. }
        | Command::Unlock { resource, .. }
        | Command::Revoke { resource, .. }
        | Command::ViewResource { resource }
        | Command::ViewPlace { resource, .. }
        | Command::ViewHolding { resource, .. }
        | Command::ViewLease { resource, .. }
        | Command::ViewFence { resource, .. }
        | Command::Inspect { resource } => Whose::Resource(resource),
        Command::Acquire(acquire) => Whose::Resource(&acquire.resource),
        Command::Spend(spend) => Whose::Resource(&spend.resource),
        Command::NameSlots(naming) => Whose::Resource(&naming.resource),
        Command::Update { claim, .. }
        | Command::Withdraw { claim }
        | Command::Attend { claim, .. }
        | Command::HandBack { claim, .. }
        | Command::ViewClaim { claim } => Whose::Claim(*claim),
        Command::Mark | Command::ListClaims(_) | Command::ListResources { .. } | Command::Survey { .. } => {
            Whose::Everything
        }
    }
}

/// A fresh id for a claim of this resource. Unguessable: for a pool it is the lease's secret. Calls about a claim of
/// the claims dialect name nothing but its id, so that id also tells its partition.
pub(crate) fn fresh_claim_id(resource: &ResourceKey) -> ClaimId {
    match resource.kind() {
        Kind::Claim => claim_id(resource, rand::random()),
        Kind::Pool | Kind::Lock => ClaimId(uuid::Builder::from_random_bytes(rand::random()).into_uuid().as_u128()),
    }
}
