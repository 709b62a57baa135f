//! The only source of chance: `SplitMix64`, written out so that a seed means the same in every build for ever.
//! Parts of the world draw from streams of their own, so that switching one fault off changes little elsewhere.

#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The stream of this name under this seed.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut rng = Rng(seed ^ stream.wrapping_mul(0xd134_2543_de82_ef95));
        rng.next_u64();
        rng
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn next_u128(&mut self) -> u128 {
        (u128::from(self.next_u64()) << 64) | u128::from(self.next_u64())
    }

    /// Below `n`, which is not zero.
    pub fn below(&mut self, n: u64) -> u64 {
        u64::try_from((u128::from(self.next_u64()) * u128::from(n)) >> 64).expect("below n")
    }

    /// From `low` to `high`, both included.
    pub fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).expect("below a usize")
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.index(of.len())]
    }

    /// True `per_mille` times in a thousand.
    pub fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_means_the_same_for_ever() {
        let mut rng = Rng::new(1, 2);
        assert_eq!(
            [rng.next_u64(), rng.next_u64()],
            [Rng::new(1, 2).next_u64(), {
                let mut r = Rng::new(1, 2);
                r.next_u64();
                r.next_u64()
            }]
        );
        assert_eq!(Rng(0).next_u64(), 0xe220_a839_7b1d_cdaf, "the published first value of SplitMix64");
    }

    #[test]
    fn ranges_include_both_ends() {
        let mut rng = Rng::new(7, 0);
        let drawn: std::collections::BTreeSet<u64> = (0..200).map(|_| rng.range(3, 6)).collect();
        assert_eq!(drawn.into_iter().collect::<Vec<_>>(), [3, 4, 5, 6]);
    }
}
