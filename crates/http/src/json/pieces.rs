//! Long arrays, written at once or piece by piece.

use bytes::Bytes;

use crate::limits::PIECE_MAX;

/// `[…,…]`
pub fn array<T>(items: &[T], write: impl Fn(&mut Vec<u8>, &T)) -> Vec<u8> {
    let mut bytes = vec![b'['];
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            bytes.push(b',');
        }
        write(&mut bytes, item);
    }
    bytes.push(b']');
    bytes
}

/// The same with the newline that ends an answer, in pieces that are each made when it is asked for.
pub fn array_pieces<T: Send + 'static>(
    items: Vec<T>,
    write: impl Fn(&mut Vec<u8>, &T) + Send + 'static,
) -> impl Iterator<Item = Bytes> + Send + 'static {
    let mut items = items.into_iter();
    let (mut open, mut is_over) = (b'[', false);
    std::iter::from_fn(move || {
        if is_over {
            return None;
        }
        let mut bytes = Vec::with_capacity(PIECE_MAX);
        while bytes.len() < PIECE_MAX {
            let Some(item) = items.next() else {
                is_over = true;
                if open == b'[' {
                    bytes.push(open);
                }
                bytes.extend_from_slice(b"]\n");
                break;
            };
            bytes.push(std::mem::replace(&mut open, b','));
            write(&mut bytes, &item);
        }
        Some(bytes.into())
    })
}
