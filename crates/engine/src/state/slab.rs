//! A vector with holes: entities get a small dense index that stays theirs until they are removed. Indices never leave
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

#[derive(Debug)]
pub(crate) struct Slab<T> {
    entries: Vec<Option<T>>,
    /// Holes, the last one made first to be filled.
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { entries: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub(crate) fn insert(&mut self, value: T) -> Ix<T> {
        if let Some(raw) = self.free.pop() {
            self.entries[raw as usize] = Some(value);
            return Ix::from_raw(raw);
        }
        let raw = u32::try_from(self.entries.len()).expect("limits keep entities far below 2^32");
        self.entries.push(Some(value));
        Ix::from_raw(raw)
    }

    pub(crate) fn remove(&mut self, ix: Ix<T>) -> T {
        let value = self.entries[ix.raw() as usize].take().expect("an index is removed once");
        self.free.push(ix.raw());
        value
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// One past the highest index in use: where a walk over all entities ends.
    pub(crate) fn end(&self) -> u32 {
        u32::try_from(self.entries.len()).expect("limits keep entities far below 2^32")
    }

    pub(crate) fn get(&self, ix: Ix<T>) -> Option<&T> {
        self.entries.get(ix.raw() as usize)?.as_ref()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Ix<T>, &T)> {
        (0u32..).zip(&self.entries).filter_map(|(raw, entry)| Some((Ix::from_raw(raw), entry.as_ref()?)))
    }
}

impl<T> std::ops::Index<Ix<T>> for Slab<T> {
    type Output = T;
    fn index(&self, ix: Ix<T>) -> &T {
        self.entries[ix.raw() as usize].as_ref().expect("an index is used only while its entity lives")
    }
}

impl<T> std::ops::IndexMut<Ix<T>> for Slab<T> {
    fn index_mut(&mut self, ix: Ix<T>) -> &mut T {
        self.entries[ix.raw() as usize].as_mut().expect("an index is used only while its entity lives")
    }
}
