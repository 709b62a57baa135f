//! Every number that stands for a variant in a record. They are on the disks of users: a number is never changed and
//! never reused, even when its variant is gone. New variants take the next free number.

/// The newest version that this build writes. It reads this version and all earlier ones. Version 2 added places that
/// are kept, version 3 the principals of locks, version 4 the particulars of claims, labels and past holds of
/// resources, version 5 the fittings of resources; each has everything that the version before it has.
pub const FORMAT_VERSION: u16 = 5;

/// Numbers of `Change`. They share their byte with the three flags below, hence at most 31.
pub(super) mod change {
    pub(in crate::record) const MARKED: u8 = 1;
    pub(in crate::record) const CONFIGURED: u8 = 2;
    pub(in crate::record) const UNCONFIGURED: u8 = 3;
    pub(in crate::record) const CLAIMED: u8 = 4;
    pub(in crate::record) const JOINED: u8 = 5;
    pub(in crate::record) const GRANTED: u8 = 6;
    pub(in crate::record) const RENEWED: u8 = 7;
    pub(in crate::record) const RETIMED: u8 = 8;
    pub(in crate::record) const GRACE_BEGAN: u8 = 9;
    pub(in crate::record) const GRACE_OVER: u8 = 10;
    pub(in crate::record) const ENDED: u8 = 11;
    pub(in crate::record) const FORGOTTEN: u8 = 12;
    pub(in crate::record) const KEPT: u8 = 13;
    /// As `CLAIMED`, with the name of a principal ahead of it.
    pub(in crate::record) const CLAIMED_BY: u8 = 14;
    /// As `CLAIMED`, with its rare parts ahead of it.
    pub(in crate::record) const CLAIMED_WITH: u8 = 15;
    pub(in crate::record) const CONFIRMED: u8 = 16;
    pub(in crate::record) const LABELED: u8 = 17;
    pub(in crate::record) const JUMPED: u8 = 18;
    pub(in crate::record) const PAUSED: u8 = 19;
    pub(in crate::record) const RESUMED: u8 = 20;
    pub(in crate::record) const SLOT_SERVED: u8 = 21;
    pub(in crate::record) const SLOTS_NAMED: u8 = 22;

    /// The first number that format version 4 does not have.
    pub(in crate::record) const FIRST_OF_VERSION_5: u8 = PAUSED;

    pub(in crate::record) const MASK: u8 = 0x1f;
    /// Service time passed since the previous change; the difference follows.
    pub(in crate::record) const TIME_PASSED: u8 = 0x80;
    /// The wall clock did not advance as service time did; the difference follows.
    pub(in crate::record) const WALL_DRIFTED: u8 = 0x40;
    /// It is about the claim that was named last; no id follows.
    pub(in crate::record) const SAME_CLAIM: u8 = 0x20;
}

/// Numbers of `Fact`.
pub(super) mod fact {
    pub(in crate::record) const COUNTERS: u8 = 1;
    pub(in crate::record) const RESOURCE: u8 = 2;
    pub(in crate::record) const CLAIM: u8 = 3;
    /// As `CLAIM`, with the name of a principal ahead of it.
    pub(in crate::record) const CLAIM_BY: u8 = 4;
    /// As `CLAIM`, with its rare parts ahead of it.
    pub(in crate::record) const CLAIM_WITH: u8 = 5;
    /// As `RESOURCE`, with its rare parts ahead of it.
    pub(in crate::record) const RESOURCE_WITH: u8 = 6;
}

/// Numbers of `ResourceKey`.
pub(super) mod resource {
    pub(in crate::record) const POOL: u8 = 1;
    pub(in crate::record) const CLAIM: u8 = 2;
    pub(in crate::record) const LOCK: u8 = 3;
}

/// Numbers of `Ending`. They share a byte with those of `Status`, hence from 16 on.
pub(super) mod ending {
    pub(in crate::record) const RELEASED: u8 = 16;
    pub(in crate::record) const EXPIRED: u8 = 17;
    pub(in crate::record) const REVOKED: u8 = 18;
    pub(in crate::record) const ABORTED: u8 = 19;
    pub(in crate::record) const WITHDRAWN: u8 = 20;
    pub(in crate::record) const TIMED_OUT: u8 = 21;
    pub(in crate::record) const DELETED: u8 = 22;
    pub(in crate::record) const HANDED_BACK: u8 = 23;
    pub(in crate::record) const SUPERSEDED: u8 = 24;
}

/// Numbers of `Status`; an ended one is written as its `Ending`.
pub(super) mod status {
    pub(in crate::record) const WAITING: u8 = 1;
    pub(in crate::record) const ACTIVE: u8 = 2;
    pub(in crate::record) const GRACE: u8 = 3;
    pub(in crate::record) const LAPSED: u8 = 4;
}

/// How a point in time is written: one of these, or the distance to a known point plus `RELATIVE`.
pub(super) mod point {
    /// `Time::NEVER` for service time, zero for a wall clock: "there is none".
    pub(in crate::record) const NONE: u64 = 0;
    /// Too far away for a distance; the value itself follows.
    pub(in crate::record) const ABSOLUTE: u64 = 1;
    pub(in crate::record) const RELATIVE: u64 = 2;
}

/// Which optional parts follow in a new claim, or in a claim's fact.
pub(super) mod part {
    pub(in crate::record) const CLIENT: u8 = 0x01;
    pub(in crate::record) const KEY: u8 = 0x02;
    pub(in crate::record) const METADATA: u8 = 0x04;
    pub(in crate::record) const SEEN: u8 = 0x08;
    /// Slot, token and lease.
    pub(in crate::record) const GRANT: u8 = 0x10;
    pub(in crate::record) const GRANTED_AT: u8 = 0x20;
    pub(in crate::record) const ENDED_AT: u8 = 0x40;
    /// How long its place is kept.
    pub(in crate::record) const KEEP: u8 = 0x80;
}

/// Which rare parts of a claim are ahead of it, in this order.
pub(super) mod rare {
    pub(in crate::record) const PRINCIPAL: u8 = 0x01;
    pub(in crate::record) const HOLDER: u8 = 0x02;
    pub(in crate::record) const WAIT_TTL: u8 = 0x04;
    pub(in crate::record) const CONFIRM: u8 = 0x08;
}

/// Which rare parts of a resource are ahead of it, in this order.
pub(super) mod resource_rare {
    pub(in crate::record) const LABEL: u8 = 0x01;
    /// How many holds, and their mean.
    pub(in crate::record) const HOLDS: u8 = 0x02;
    /// The fittings that operators set.
    pub(in crate::record) const FITTINGS: u8 = 0x04;
}

/// Which fittings of a resource follow, in this order.
pub(super) mod fitting {
    pub(in crate::record) const PAUSE: u8 = 0x01;
    pub(in crate::record) const OUT_OF_SERVICE: u8 = 0x02;
    pub(in crate::record) const SLOTS: u8 = 0x04;
}
