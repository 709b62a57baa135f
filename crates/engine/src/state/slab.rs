//! A table with holes: entities get a small dense index that stays theirs until they are removed. Indices never leave
//! the engine; outside, a claim is its id and a resource its key.

use std::marker::PhantomData;

/// The index of a `T` in its slab. Four bytes, where a pointer would take eight.
pub(crate) struct Ix<T>(u32, PhantomData<fn() -> T>);

impl<T> Ix<T> {
    /// Points at nothing; stands for "none" where an `Option` would double the size.
    pub(crate) const NONE: Ix<T> = Ix(u32::MAX, PhantomData);

    pub(crate) fn from_raw(raw: u32) -> Self {
        Ix(raw, PhantomData)
    }

    pub(crate) fn raw(self) -> u32 {
        self.0
    }

    pub(crate) fn is_none(self) -> bool {
        self.0 == u32::MAX
    }

    pub(crate) fn some(self) -> Option<Self> {
        if self.is_none() { None } else { Some(self) }
    }
}

// Derived impls would ask the same of `T`.
impl<T> Clone for Ix<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Ix<T> {}
impl<T> PartialEq for Ix<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}
impl<T> Eq for Ix<T> {}
impl<T> PartialOrd for Ix<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Ix<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}
impl<T> std::fmt::Debug for Ix<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// Entries are allocated this many at a time. One growing vector would be copied whole each time it doubles, which
/// takes three times its size for a moment, and long under the engine's lock.
const CHUNK: usize = 1 << CHUNK_BITS;
const CHUNK_BITS: u32 = 10;

#[derive(Debug)]
pub(crate) struct Slab<T> {
    chunks: Vec<Box<[Option<T>]>>,
    /// One past the highest index that was ever used.
    end: u32,
    /// Holes, the last one made first to be filled.
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { chunks: Vec::new(), end: 0, free: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub(crate) fn insert(&mut self, value: T) -> Ix<T> {
        let raw = self.free.pop().unwrap_or_else(|| self.lengthen());
        *self.entry_mut(raw) = Some(value);
        Ix::from_raw(raw)
    }

    fn lengthen(&mut self) -> u32 {
        let raw = self.end;
        self.end = raw.checked_add(1).filter(|&end| end != u32::MAX).expect("limits keep entities far below 2^32");
        if raw as usize == self.chunks.len() * CHUNK {
            self.chunks.push(std::iter::repeat_with(|| None).take(CHUNK).collect());
        }
        raw
    }

    pub(crate) fn remove(&mut self, ix: Ix<T>) -> T {
        let value = self.entry_mut(ix.raw()).take().expect("an index is removed once");
        self.free.push(ix.raw());
        value
    }

    pub(crate) fn len(&self) -> usize {
        self.end as usize - self.free.len()
    }

    /// Entries that were used once and are free now.
    pub(crate) fn holes(&self) -> usize {
        self.free.len()
    }

    /// One past the highest index in use: where a walk over all entities ends.
    pub(crate) fn end(&self) -> u32 {
        self.end
    }

    pub(crate) fn get(&self, ix: Ix<T>) -> Option<&T> {
        self.chunks.get((ix.raw() >> CHUNK_BITS) as usize)?[ix.raw() as usize % CHUNK].as_ref()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Ix<T>, &T)> {
        let entries = self.chunks.iter().flatten();
        (0u32..).zip(entries).filter_map(|(raw, entry)| Some((Ix::from_raw(raw), entry.as_ref()?)))
    }

    fn entry_mut(&mut self, raw: u32) -> &mut Option<T> {
        &mut self.chunks[(raw >> CHUNK_BITS) as usize][raw as usize % CHUNK]
    }
}

impl<T> std::ops::Index<Ix<T>> for Slab<T> {
    type Output = T;
    fn index(&self, ix: Ix<T>) -> &T {
        self.get(ix).expect("an index is used only while its entity lives")
    }
}

impl<T> std::ops::IndexMut<Ix<T>> for Slab<T> {
    fn index_mut(&mut self, ix: Ix<T>) -> &mut T {
        self.entry_mut(ix.raw()).as_mut().expect("an index is used only while its entity lives")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_filled_before_it_grows_and_chunks_meet_without_a_seam() {
        let mut slab = Slab::default();
        let indices: Vec<Ix<usize>> = (0..=CHUNK).map(|nth| slab.insert(nth)).collect();
        assert_eq!((slab.len(), slab.holes(), slab.end() as usize), (CHUNK + 1, 0, CHUNK + 1));
        for (nth, &ix) in indices.iter().enumerate() {
            assert_eq!((slab[ix], slab.get(ix)), (nth, Some(&nth)));
        }
        assert_eq!(slab.remove(indices[CHUNK - 1]), CHUNK - 1);
        assert_eq!((slab.get(indices[CHUNK - 1]), slab.holes()), (None, 1));
        assert_eq!(slab.insert(7), indices[CHUNK - 1], "the hole first");
        slab[indices[CHUNK]] = 8;
        assert_eq!(slab.iter().map(|(_, &value)| value).sum::<usize>(), (0..CHUNK - 1).sum::<usize>() + 7 + 8);
        assert_eq!(slab.get(Ix::from_raw(u32::try_from(2 * CHUNK).unwrap())), None, "past the last chunk");
        assert_eq!(slab.get(Ix::NONE), None);
    }
}
