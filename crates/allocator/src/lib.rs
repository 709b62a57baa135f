//! The memory allocator of Leasehold's programs: mimalloc, called the short way.
//!
//! The crate `mimalloc` asks for an alignment with every block, which takes mimalloc three to four times the
//! instructions of a plain block, and for some sizes a larger block than was wanted. Nearly every block of ours has an
//! alignment of at most 16 bytes, which a plain block of that size has anyway. A request makes 22 blocks: 1 900 of its
//! 31 000 instructions were that.
//!
//! A thread keeps some of the blocks that came back last (`kept`), for they are in the processor's caches.
//!
//! This is the only crate of the workspace with unsafe code of its own.

mod kept;

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_void;

use libmimalloc_sys::{
    mi_free, mi_malloc, mi_malloc_aligned, mi_realloc, mi_realloc_aligned, mi_zalloc, mi_zalloc_aligned,
};

/// mimalloc's blocks of this size and more are aligned to it: `MI_MAX_ALIGN_SIZE` in its `types.h`. Smaller blocks are
/// aligned to the power of two that is not above their size.
const NATURAL_ALIGN_MAX: usize = 16;

/// mimalloc as the global allocator.
#[derive(Debug)]
pub struct Allocator;

/// Returns whether a plain block has the alignment that is asked for.
const fn is_natural(size: usize, align: usize) -> bool {
    align <= NATURAL_ALIGN_MAX && align <= size
}

/// The class of a block that may be kept: all of a class are aligned alike.
#[inline]
fn class_of(layout: Layout) -> Option<usize> {
    if layout.align() <= kept::GRAIN { kept::class_of(layout.size()) } else { None }
}

// SAFETY: every block comes from mimalloc and goes back to it, `realloc` keeps its contents, and `is_natural` leaves
// out the alignments that a plain block may not have. None of these functions unwinds.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        if let Some(class) = class_of(layout) {
            return match kept::take(class) {
                Some(block) => block.as_ptr(),
                // SAFETY: any size may be asked for.
                None => unsafe { mi_malloc(kept::size_of(class)).cast() },
            };
        }
        // SAFETY: any size and any power of two may be asked for.
        unsafe { if is_natural(size, align) { mi_malloc(size) } else { mi_malloc_aligned(size, align) }.cast() }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        if let Some(class) = class_of(layout) {
            // SAFETY: as above.
            return unsafe { mi_zalloc(kept::size_of(class)).cast() };
        }
        // SAFETY: as above.
        unsafe { if is_natural(size, align) { mi_zalloc(size) } else { mi_zalloc_aligned(size, align) }.cast() }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if let Some(class) = class_of(layout) {
            // SAFETY: every function here makes blocks of such a layout as large as their class, and aligned to it.
            if unsafe { kept::keep(class, block) } {
                return;
            }
        }
        // SAFETY: the caller has `block` from here, and gives it back once.
        unsafe { mi_free(block.cast::<c_void>()) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let (block, align) = (block.cast::<c_void>(), layout.align());
        let size = Layout::from_size_align(size, align).ok().and_then(class_of).map_or(size, kept::size_of);
        // SAFETY: the caller has `block` from here, and uses what is returned in its place.
        unsafe {
            if is_natural(size, align) { mi_realloc(block, size) } else { mi_realloc_aligned(block, size, align) }
                .cast()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static ALLOCATOR: Allocator = Allocator;

    /// Sizes around every power of two, and every alignment up to a page.
    fn layouts() -> impl Iterator<Item = Layout> {
        let sizes =
            (0..18).flat_map(|power| (-1..=1).map(move |by: isize| (1_usize << power).saturating_add_signed(by)));
        let sizes = sizes.chain(1..300).filter(|&size| size > 0);
        sizes
            .flat_map(|size| (0..13).map(move |power| Layout::from_size_align(size, 1 << power).expect("both are fit")))
    }

    fn is_aligned(block: *mut u8, layout: Layout) -> bool {
        !block.is_null() && block.addr().is_multiple_of(layout.align())
    }

    #[test]
    fn every_block_has_the_alignment_it_was_asked_for() {
        let mut kept = Vec::new();
        for layout in layouts() {
            // SAFETY: no size is zero; each block is given back below with its own layout.
            let (plain, zeroed) = unsafe { (Allocator.alloc(layout), Allocator.alloc_zeroed(layout)) };
            assert!(is_aligned(plain, layout) && is_aligned(zeroed, layout), "{layout:?}");
            // SAFETY: the block has that many bytes, all of them written.
            let bytes = unsafe { std::slice::from_raw_parts(zeroed, layout.size()) };
            assert!(bytes.iter().all(|&byte| byte == 0), "{layout:?}");
            kept.extend([(plain, layout), (zeroed, layout)]);
        }
        for (block, layout) in kept {
            // SAFETY: allocated above with this layout.
            unsafe { Allocator.dealloc(block, layout) };
        }
    }

    #[test]
    fn a_block_that_grows_or_shrinks_keeps_what_is_in_it_and_its_alignment() {
        for layout in layouts() {
            for size in [1, layout.size() / 2 + 1, layout.size() + 1, layout.size() * 3] {
                let resized = Layout::from_size_align(size, layout.align()).expect("both are fit");
                let kept = size.min(layout.size());
                // SAFETY: no size is zero; what is read was written, and the block is given back once with its layout.
                unsafe {
                    let block = Allocator.alloc(layout);
                    block.write_bytes(0x5a, layout.size());
                    let block = Allocator.realloc(block, layout, size);
                    assert!(is_aligned(block, resized), "{layout:?} to {size}");
                    assert!(
                        std::slice::from_raw_parts(block, kept).iter().all(|&byte| byte == 0x5a),
                        "{layout:?} to {size}"
                    );
                    Allocator.dealloc(block, resized);
                }
            }
        }
    }
}
