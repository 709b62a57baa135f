//! The order of answers: by position, and within one position by what a step does first.

use super::{Call, Contradiction, HeardAnswer, Op, Outcome, Stamp};

/// An answered op on the witness.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Witness {
    pub(crate) stamp: Stamp,
    /// Its place in the history.
    pub(crate) op: usize,
    /// The latest time at which the state it saw existed: neither this answer nor any later in the order was given
    /// before it.
    pub(crate) by_us: u64,
}

/// The answered ops in the order of the states they saw, if there can be such an order.
pub(crate) fn witness(history: &[Op]) -> Result<Vec<Witness>, Contradiction> {
    let mut witness: Vec<Witness> = Vec::new();
    for (n, op) in history.iter().enumerate() {
        if let Outcome::Answered { stamp, end_us, .. } = &op.outcome {
            if *end_us < op.start_us {
                return Err(Contradiction { op: n, why: "it was answered before it was asked".to_owned() });
            }
            witness.push(Witness { stamp: *stamp, op: n, by_us: *end_us });
        }
    }
    witness.sort_by_key(|one| (one.stamp, rank(&history[one.op]), one.op));
    check_epochs(&witness)?;
    check_real_time(history, &witness)?;
    let mut by_us = u64::MAX;
    for one in witness.iter_mut().rev() {
        by_us = by_us.min(one.by_us);
        one.by_us = by_us;
    }
    Ok(witness)
}

/// The order of answers with one position: one step may end a lease, grant the slot to another claim, and be read.
fn rank(op: &Op) -> (u8, u64) {
    match &op.outcome {
        Outcome::Answered { answer, .. } => match (answer, &op.call) {
            (HeardAnswer::Configured | HeardAnswer::Deleted(true), _) => (0, 0),
            (HeardAnswer::Released(true), _) => (1, 0),
            (HeardAnswer::Held { token, .. }, Call::Acquire { .. })
            | (HeardAnswer::Active { token, .. }, Call::Claim { .. })
            | (HeardAnswer::Locked { token, .. }, _) => (2, *token),
            (HeardAnswer::Held { token, .. }, _) => (3, *token),
            (HeardAnswer::Active { .. }, Call::Update { .. }) => (3, 0),
            (HeardAnswer::Waiting { .. }, _) => (4, 0),
            // An answer says what is left of a lease when it leaves. One that left after the end shows the state of the
            // same position as one that left before, and comes after it.
            (HeardAnswer::LockSeen { is_expired: true, .. }, _) => (5, 1),
            _ => (5, 0),
        },
        Outcome::Unknown { .. } => (6, 0),
    }
}

/// A later owner has the later positions.
fn check_epochs(witness: &[Witness]) -> Result<(), Contradiction> {
    for pair in witness.windows(2) {
        let [before, after] = pair else { continue };
        if after.stamp.epoch < before.stamp.epoch {
            let (epoch, position) = (after.stamp.epoch, after.stamp.position);
            let why = format!("epoch {epoch} at {position}, after epoch {}", before.stamp.epoch);
            return Err(Contradiction { op: after.op, why });
        }
    }
    Ok(())
}

/// An answer that came before another call was sent comes no later in the order.
fn check_real_time(history: &[Op], witness: &[Witness]) -> Result<(), Contradiction> {
    let mut by_start: Vec<(u64, u64, usize)> = Vec::new();
    let mut by_end: Vec<(u64, u64)> = Vec::new();
    for Witness { stamp, op, .. } in witness {
        if let Outcome::Answered { end_us, .. } = history[*op].outcome {
            by_start.push((history[*op].start_us, stamp.position, *op));
            by_end.push((end_us, stamp.position));
        }
    }
    by_start.sort_unstable();
    by_end.sort_unstable();
    let mut ended = by_end.into_iter().peekable();
    let mut latest = 0;
    for (start_us, position, op) in by_start {
        while let Some((_, seen)) = ended.next_if(|(end_us, _)| *end_us < start_us) {
            latest = latest.max(seen);
        }
        if position < latest {
            let why = format!("it saw {position}, but {latest} had been answered before it was asked");
            return Err(Contradiction { op, why });
        }
    }
    Ok(())
}
