//! Values that are made in their place on the heap. `Box::new` makes a value on the stack first and copies it, as the
//! value has to be dropped there if there is no memory. A future is as large as all that it may hold later, most of it
//! empty when it begins, and all of it is copied.

use std::pin::Pin;

/// Makes room first, then the value in it.
#[inline]
pub fn boxed<T>(make: impl FnOnce() -> T) -> Box<T> {
    let room = Box::new_uninit();
    Box::write(room, make())
}

/// A future that does not move again.
#[inline]
pub fn boxed_pin<F: Future>(make: impl FnOnce() -> F) -> Pin<Box<F>> {
    Box::into_pin(boxed(make))
}
