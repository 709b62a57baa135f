//! The formats of a cluster: everything that nodes tell each other through records in the store and over links,
//! numbered. A cluster uses one, and its facts say which. A node understands every format up to its own, which its
//! record says, and refuses to join a cluster of a later one.
//!
//! | format | since | new in it |
//! |---|---|---|
//! | 1 | the first clusters | records of the journal up to version 4 |
//! | 2 | pauses | records of version 5: pauses, slots out of service, names of slots |
//!
//! So versions next to each other share a cluster: the new one says nothing that the old one does not understand, until
//! the first command comes that needs it and every living node knows it. A new command, or a change with new bytes,
//! gets the next format here.

use leasehold_engine::Command;

/// The highest format that this build understands.
pub const FORMAT: u16 = 2;

/// The format that a cluster has to use before this command may be asked of an owner: all nodes follow what comes of
/// it.
pub fn needed(command: &Command) -> u16 {
    match command {
        Command::Configure { .. }
        | Command::Unconfigure { .. }
        | Command::Acquire(_)
        | Command::Renew { .. }
        | Command::Return { .. }
        | Command::Unlock { .. }
        | Command::Spend(_)
        | Command::Update { .. }
        | Command::Withdraw { .. }
        | Command::Attend { .. }
        | Command::Mark
        | Command::HandBack { .. }
        | Command::Revoke { .. }
        | Command::ViewResource { .. }
        | Command::ViewPlace { .. }
        | Command::ViewHolding { .. }
        | Command::ViewLease { .. }
        | Command::ViewClaim { .. }
        | Command::ListClaims(_)
        | Command::ListResources { .. }
        | Command::ViewFence { .. }
        | Command::Survey { .. }
        | Command::Inspect { .. } => 1,
        Command::NameSlots(_) | Command::Pause { .. } | Command::Resume { .. } | Command::ServeSlot { .. } => 2,
    }
}
