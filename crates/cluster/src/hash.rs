//! Which partition a resource belongs to, and how the id of a claim names its partition.
//!
//! ```text
//! hash      = mix64(fnv1a64(kind ‖ name or UUID bytes))     of a resource in no realm
//!           = mix64(fnv1a64(0xff ‖ realm))                  of a lock or claim called @realm/rest
//! partition = the top bits of the hash
//! claim id  = a UUID of version 8; its 12 bits after the version are the top bits of the hash
//! ```
//!
//! The data of users lies where this says. The test vectors below hold for ever.

use leasehold_engine::{ClaimId, ResourceKey, planted};

/// The bits of a hash that a claim id carries, and so the most that can choose a partition.
pub const HASH_BITS: u32 = 12;
/// The largest number of partitions.
pub const PARTITIONS_MAX: u32 = 1 << HASH_BITS;

const POOL: u8 = 1;
const CLAIM: u8 = 2;
const LOCK: u8 = 3;
const REALM: u8 = 0xff;

const VERSION_SHIFT: u32 = 76;
const HASH_SHIFT: u32 = 64;
const VARIANT_SHIFT: u32 = 62;

/// The number of partitions of a cluster: a power of two from 1 to [`PARTITIONS_MAX`], fixed when the cluster is born.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Partitions(u32);

impl Partitions {
    /// The default: enough for three nodes.
    pub const DEFAULT: Partitions = Partitions(8);

    /// A service in one process.
    pub const ONE: Partitions = Partitions(1);

    /// `None` when it is no power of two, or out of range.
    pub fn new(number: u32) -> Option<Partitions> {
        (number.is_power_of_two() && number <= PARTITIONS_MAX).then_some(Partitions(number))
    }

    /// How many there are.
    pub fn number(self) -> u32 {
        self.0
    }

    /// Each of them, in order.
    pub fn all(self) -> std::ops::Range<u32> {
        0..self.0
    }

    /// The partition of a resource.
    pub fn of(self, resource: &ResourceKey) -> u32 {
        self.by_bits(top_bits(hash(resource)))
    }

    /// The partition that the id of a claim names; `None` for an id that was not made by [`claim_id`].
    pub fn of_claim(self, claim: ClaimId) -> Option<u32> {
        let version = claim.0 >> VERSION_SHIFT & 0xf;
        let variant = claim.0 >> VARIANT_SHIFT & 0b11;
        let bits = u32::try_from(claim.0 >> HASH_SHIFT & 0xfff).expect("twelve bits");
        (version == 8 && variant == 0b10).then(|| self.by_bits(bits))
    }

    fn by_bits(self, bits: u32) -> u32 {
        bits >> (HASH_BITS - self.0.trailing_zeros())
    }
}

/// The hash of a resource. It chooses the partition, whatever their number.
pub fn hash(resource: &ResourceKey) -> u64 {
    match resource {
        ResourceKey::Pool(id) => hash_of(POOL, &id.to_be_bytes()),
        ResourceKey::Claim(name) => hash_of_name(CLAIM, name),
        ResourceKey::Lock(name) => hash_of_name(LOCK, name),
    }
}

/// The realm of a name `@realm/rest`: not empty, up to the first slash.
pub fn realm(name: &str) -> Option<&str> {
    name.strip_prefix('@')?.split_once('/').map(|(realm, _)| realm).filter(|realm| !realm.is_empty())
}

/// An id for a claim of this resource. The `random` bits are the caller's; 6 of them become version and variant, 12 the
/// hash.
pub fn claim_id(resource: &ResourceKey, random: u128) -> ClaimId {
    let fixed = 0xf << VERSION_SHIFT | 0xfff << HASH_SHIFT | 0b11 << VARIANT_SHIFT;
    let bits = top_bits(hash(resource));
    let bits = u128::from(if planted!(IdToWrongPartition) { bits ^ 0x800 } else { bits });
    ClaimId(random & !fixed | 8 << VERSION_SHIFT | bits << HASH_SHIFT | 0b10 << VARIANT_SHIFT)
}

fn hash_of_name(kind: u8, name: &str) -> u64 {
    match realm(name) {
        Some(realm) => hash_of(REALM, realm.as_bytes()),
        None => hash_of(kind, name.as_bytes()),
    }
}

fn hash_of(kind: u8, bytes: &[u8]) -> u64 {
    let fnv1a = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    mix64(bytes.iter().copied().fold(fnv1a(0xcbf2_9ce4_8422_2325, kind), fnv1a))
}

/// FNV alone leaves the top bits of short names alike.
fn mix64(hash: u64) -> u64 {
    let hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ hash >> 31
}

fn top_bits(hash: u64) -> u32 {
    u32::try_from(hash >> (64 - HASH_BITS)).expect("twelve bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(name: &str) -> ResourceKey {
        ResourceKey::Lock(name.into())
    }

    fn claim(name: &str) -> ResourceKey {
        ResourceKey::Claim(name.into())
    }

    /// Computed apart from this code. The data of users lies by these: a vector is never changed.
    #[test]
    fn vectors_hold_for_ever() {
        let pool = ResourceKey::Pool(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff);
        let vectors = [
            (pool, 0x76cf_8645_f4dd_fc38),
            (ResourceKey::Pool(0), 0xbe3d_5a37_db5b_cb18),
            (lock(""), 0x0e49_abb0_b396_f44c),
            (claim(""), 0xa5ed_1b2d_398f_c9b8),
            (lock("a"), 0x66d9_f1db_cfd3_d5f5),
            (claim("a"), 0x497b_4a85_512b_0d05),
            (lock("deploy"), 0x3b6c_1d7c_8b0c_7f60),
            (claim("deploy"), 0x3c36_a7de_8641_7ee5),
            (lock("größe"), 0x7c7f_ca92_7527_fa04),
            (claim("größe"), 0x3261_199c_0081_8813),
            (lock("@/x"), 0x684d_b9d5_2e8d_c694),
            (claim("@/x"), 0xf742_df6c_27b3_87e8),
            (lock("@ci"), 0x667f_b5d9_9459_3f4b),
            (claim("@ci"), 0x9b10_79ae_ec1b_b91b),
            (lock("@ci/x"), 0xb827_1407_65fc_5268),
            (claim("@ci/x"), 0xb827_1407_65fc_5268),
            (lock("@ci/y/z"), 0xb827_1407_65fc_5268),
            (claim("@ci/y/z"), 0xb827_1407_65fc_5268),
            (lock("@a/"), 0x1b93_27ed_6b0f_dd2f),
            (claim("@a/"), 0x1b93_27ed_6b0f_dd2f),
        ];
        for (resource, expected) in vectors {
            assert_eq!(hash(&resource), expected, "{resource:?}: {:#018x}", hash(&resource));
        }
    }

    #[test]
    fn a_realm_is_in_one_partition_whatever_the_kind() {
        assert_eq!(hash(&lock("@ci/a")), hash(&claim("@ci/b/c")));
        assert_ne!(hash(&lock("a")), hash(&claim("a")));
        let realms = ["@ci/x", "@ci/", "@/x", "@ci", "ci/x", "@a/b/c", ""].map(realm);
        assert_eq!(realms, [Some("ci"), Some("ci"), None, None, None, Some("a"), None]);
    }

    #[test]
    fn an_id_names_the_partition_for_every_number_of_partitions() {
        for power in 0..=HASH_BITS {
            let partitions = Partitions::new(1 << power).expect("a power of two");
            for n in 0..200_u128 {
                let resource = if n % 2 == 0 { lock(&n.to_string()) } else { ResourceKey::Pool(n * 7919) };
                for random in [0, u128::MAX, n << 64 | n] {
                    let id = claim_id(&resource, random);
                    assert_eq!(partitions.of_claim(id), Some(partitions.of(&resource)));
                    assert!(partitions.of(&resource) < partitions.number());
                }
            }
        }
    }

    #[test]
    fn only_ids_of_ours_name_a_partition() {
        let id = claim_id(&lock("a"), 0).0;
        assert!(Partitions::DEFAULT.of_claim(ClaimId(id ^ 0b1100 << VERSION_SHIFT)).is_none(), "version 4 is older");
        assert!(Partitions::DEFAULT.of_claim(ClaimId(id ^ 0b01 << VARIANT_SHIFT)).is_none());
    }

    #[test]
    fn partitions_are_a_power_of_two_up_to_4096() {
        let numbers = [0, 1, 2, 3, 4095, 4096, 4097, 8192, u32::MAX];
        let allowed = numbers.map(|number| Partitions::new(number).is_some());
        assert_eq!(allowed, [false, true, true, false, false, true, false, false, false]);
    }

    #[test]
    fn names_spread_evenly() {
        let partitions = Partitions::new(16).expect("a power of two");
        let mut counts = [0_u32; 16];
        for n in 0..16_000 {
            counts[partitions.of(&lock(&format!("deploy-{n}"))) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (850..1_150).contains(count)), "{counts:?}");
    }
}
