//! Which of the pieces on their way to the disk a crash keeps. Few pieces: every subset there is. Many: everything,
//! nothing, all but one and one alone, torn front to back, and beyond that by chance, by sector, block or whole write.

use super::disk::Piece;

/// Up to this many pieces all subsets are tried.
const EXHAUSTIVE_PIECES: usize = 7;

/// Those that are worth trying first. `newest` is the step that was just made: without any piece of it, the state is
/// one of those before it.
pub(super) fn systematic(pieces: &[Piece], newest: usize) -> Vec<Vec<bool>> {
    if pieces.len() <= EXHAUSTIVE_PIECES {
        return (0_u32..1 << pieces.len())
            .map(|bits| (0..pieces.len()).map(|i| bits >> i & 1 == 1).collect())
            .collect();
    }
    let mut subsets = vec![vec![true; pieces.len()], vec![false; pieces.len()]];
    let mut steps: Vec<usize> = pieces.iter().map(|piece| piece.step).collect();
    steps.dedup();
    for step in steps {
        subsets.push(pieces.iter().map(|piece| piece.step == step).collect());
        subsets.push(pieces.iter().map(|piece| piece.step != step).collect());
    }
    for torn in (0..pieces.len()).filter(|&i| pieces[i].step == newest) {
        subsets.push((0..pieces.len()).map(|i| i != torn).collect());
        subsets.push((0..pieces.len()).map(|i| pieces[i].step != newest || i <= torn).collect());
        subsets.push((0..pieces.len()).map(|i| pieces[i].step == newest && i >= torn).collect());
    }
    subsets
}

/// One more, by chance.
pub(super) fn random(pieces: &[Piece], random: &mut Random) -> Vec<bool> {
    // Mostly kept, mostly lost, and evenly.
    let odds = [32, 128, 224][random.below(3)];
    let granularity = random.below(3);
    let mut last = None;
    pieces
        .iter()
        .map(|piece| {
            let together = match granularity {
                0 => None,
                1 => Some((piece.step, piece.block)),
                _ => Some((piece.step, 0)),
            };
            match last {
                Some((before, keep)) if together.is_some() && before == together => keep,
                _ => {
                    let keep = random.below(256) < odds;
                    last = Some((together, keep));
                    keep
                }
            }
        })
        .collect()
}

/// Numbers from a seed (splitmix64).
#[derive(Debug)]
pub(super) struct Random(pub(super) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).expect("it is below a usize")
    }
}
