//! Blocks that were given back last, kept by their thread for the next request of their size.
//!
//! mimalloc hands out the blocks of a page one after the other, and turns to those that came back only when there are
//! no others. A request of the service makes 14 blocks of as many sizes, so it wrote to another piece of each page
//! every time: 2.5 % of its time on disk was one instruction, which reads the first word of a block that is in no near
//! cache any more. The block that was given back last is in the nearest one.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::{self, NonNull};

use libmimalloc_sys::mi_free;

/// Sizes are rounded up to a multiple of this, as mimalloc does itself, and blocks of such sizes are aligned to it.
pub(crate) const GRAIN: usize = 16;

/// Larger blocks are not kept.
const SIZE_MAX: usize = 2048;

const CLASSES: usize = SIZE_MAX / GRAIN;

/// At most so many of a size are kept: about a megabyte a thread, if it has all of every size.
const COUNT_MAX: u8 = 8;

/// The contents of a block that is kept.
struct Link {
    next: *mut Link,
}

/// The blocks that a thread keeps, by class.
struct Kept {
    first: [Cell<*mut Link>; CLASSES],
    count: [Cell<u8>; CLASSES],
}

thread_local! {
    // A global allocator may use this from Rust 1.93 on. It is gone when the thread ends and its last blocks come back.
    static KEPT: Kept = const {
        Kept { first: [const { Cell::new(ptr::null_mut()) }; CLASSES], count: [const { Cell::new(0) }; CLASSES] }
    };
}

impl Kept {
    #[inline]
    fn take(&self, class: usize) -> Option<NonNull<u8>> {
        let block = NonNull::new(self.first[class].get())?;
        // SAFETY: `keep` wrote it, and the program has given the block back.
        self.first[class].set(unsafe { block.as_ref() }.next);
        self.count[class].set(self.count[class].get() - 1);
        Some(block.cast())
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        for class in 0..CLASSES {
            while let Some(block) = self.take(class) {
                // SAFETY: it is from mimalloc, and nothing points to it any more.
                unsafe { mi_free(block.as_ptr().cast::<c_void>()) };
            }
        }
    }
}

/// The number of a size, if blocks of that size are kept.
#[inline]
pub(crate) fn class_of(size: usize) -> Option<usize> {
    let class = size.wrapping_sub(1) / GRAIN;
    (class < CLASSES).then_some(class)
}

/// The size of the blocks of a class.
#[inline]
pub(crate) fn size_of(class: usize) -> usize {
    (class + 1) * GRAIN
}

/// Returns a block of this class, if the thread keeps one.
#[inline]
pub(crate) fn take(class: usize) -> Option<NonNull<u8>> {
    KEPT.try_with(|kept| kept.take(class)).ok().flatten()
}

/// Keeps a block of this class. Returns false if the thread has enough of them, or ends.
///
/// # Safety
/// The block is mimalloc's, of this class's size, aligned to [`GRAIN`], and nothing points to it any more.
#[inline]
pub(crate) unsafe fn keep(class: usize, block: *mut u8) -> bool {
    let is_kept = KEPT.try_with(|kept| {
        let count = kept.count[class].get();
        if count == COUNT_MAX {
            return false;
        }
        #[expect(clippy::cast_ptr_alignment, reason = "blocks are aligned to more")]
        let link = block.cast::<Link>();
        // SAFETY: by the condition of this function.
        unsafe { link.write(Link { next: kept.first[class].get() }) };
        kept.first[class].set(link);
        kept.count[class].set(count + 1);
        true
    });
    is_kept.unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use libmimalloc_sys::mi_malloc;

    use super::*;

    /// The class of 2000 bytes: no other code of the test makes such blocks.
    const CLASS: usize = 124;

    fn some(number: usize) -> Vec<*mut u8> {
        // SAFETY: any size may be asked for.
        (0..number).map(|_| unsafe { mi_malloc(size_of(CLASS)).cast() }).collect()
    }

    #[test]
    fn sizes_at_the_bounds_of_classes() {
        assert_eq!(class_of(0), None);
        assert_eq!([1, 16, 17, 32].map(class_of), [Some(0), Some(0), Some(1), Some(1)]);
        assert_eq!([SIZE_MAX - 1, SIZE_MAX, SIZE_MAX + 1].map(class_of), [Some(CLASSES - 1), Some(CLASSES - 1), None]);
        assert!((1..=SIZE_MAX).all(|size| (size..size + GRAIN).contains(&size_of(class_of(size).unwrap()))));
    }

    #[test]
    fn the_block_that_came_back_last_leaves_first_and_the_ninth_is_not_kept() {
        let blocks = some(usize::from(COUNT_MAX) + 1);
        let (ninth, eight) = blocks.split_last().unwrap();
        // SAFETY: the blocks are from above, and not used.
        assert!(eight.iter().all(|&block| unsafe { keep(CLASS, block) }));
        // SAFETY: as above.
        assert!(!unsafe { keep(CLASS, *ninth) });
        for &block in eight.iter().rev() {
            assert_eq!(take(CLASS).unwrap().as_ptr(), block);
        }
        assert_eq!(take(CLASS), None);
        for block in blocks {
            // SAFETY: each is given back once.
            unsafe { mi_free(block.cast::<c_void>()) };
        }
    }

    #[test]
    fn a_thread_that_ends_gives_back_what_it_kept() {
        let blocks: Vec<usize> = some(4).into_iter().map(<*mut u8>::expose_provenance).collect();
        let mine = blocks.clone();
        std::thread::spawn(move || {
            for block in mine {
                // SAFETY: the blocks are from above, and not used.
                assert!(unsafe { keep(CLASS, ptr::with_exposed_provenance_mut(block)) });
            }
        })
        .join()
        .unwrap();
        // mimalloc hands them out again, sooner or later: a page has 32 of them.
        let again = some(400);
        assert!(blocks.iter().all(|&block| again.iter().any(|found| found.addr() == block)), "they are lost");
    }
}
