//! A link to another node: frames of messages in both directions, and a sign of life every second. A frame is its length
//! in four bytes and its messages; an empty one is the sign of life. Messages that are ready together leave together.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_cluster::wire::{self, FRAME_BYTES_MAX};
use leasehold_cluster::{Message, PeerAddress};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::entrance::Shared;

/// A silent link shows that it is there.
const PING_EVERY: Duration = Duration::from_secs(1);
/// A link without any sign of life for so long is lost.
const DEAD_AFTER: Duration = Duration::from_secs(3);
/// Bytes that a peer has not taken: from here on callers are turned away.
const SLOW_BYTES: usize = 4 << 20;
/// From here on the link is given up.
const PENDING_BYTES_MAX: usize = 8 << 20;
/// The first bytes of a frame.
const HEADER_BYTES: usize = 4;

/// The messages on their way to a peer.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pending: Mutex<Pending>,
    bell: Notify,
    is_slow: AtomicBool,
    slow_links: Arc<AtomicUsize>,
}

#[derive(Debug, Default)]
struct Pending {
    /// A frame that is being filled, with room for its length at the beginning.
    frame: Vec<u8>,
    is_closed: bool,
}

impl Outgoing {
    pub(crate) fn new(slow_links: Arc<AtomicUsize>) -> Outgoing {
        Outgoing { pending: Mutex::default(), bell: Notify::new(), is_slow: AtomicBool::new(false), slow_links }
    }

    pub(crate) fn push(&self, message: &Message) {
        let mut pending = self.pending();
        if pending.is_closed {
            return;
        }
        if pending.frame.is_empty() {
            pending.frame.extend([0; HEADER_BYTES]);
        }
        wire::encode(message, &mut pending.frame);
        let len = pending.frame.len();
        pending.is_closed = len > PENDING_BYTES_MAX;
        drop(pending);
        self.set_slow(len > SLOW_BYTES);
        self.bell.notify_one();
    }

    pub(crate) fn close(&self) {
        self.pending().is_closed = true;
        self.bell.notify_one();
    }

    pub(crate) fn is_slow(&self) -> bool {
        self.is_slow.load(Ordering::Relaxed)
    }

    fn set_slow(&self, is_slow: bool) {
        if self.is_slow.swap(is_slow, Ordering::Relaxed) != is_slow {
            if is_slow {
                self.slow_links.fetch_add(1, Ordering::Relaxed);
            } else {
                self.slow_links.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// The frame that has been filled; an empty one if nothing came for a while. `None` when the link is closed.
    async fn next_frame(&self) -> Option<Vec<u8>> {
        loop {
            {
                let mut pending = self.pending();
                if pending.is_closed {
                    return None;
                }
                if !pending.frame.is_empty() {
                    let mut frame = std::mem::take(&mut pending.frame);
                    let len = u32::try_from(frame.len() - HEADER_BYTES).expect("a frame is bounded");
                    frame[..HEADER_BYTES].copy_from_slice(&len.to_be_bytes());
                    return Some(frame);
                }
            }
            if timeout(PING_EVERY, self.bell.notified()).await.is_err() {
                return Some(vec![0; HEADER_BYTES]);
            }
        }
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        // Every step under this lock is whole.
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.set_slow(false);
    }
}

/// Carries messages both ways until the link is lost.
pub(crate) async fn carry<S>(shared: Arc<Shared>, stream: S, peer: PeerAddress, number: u64)
where
    S: AsyncRead + AsyncWrite,
{
    let Some(outgoing) = link_up(&shared, &peer, number) else { return };
    tracing::debug!(target: "leasehold::cluster", peer = &*peer, number, "linked");
    let (from, to) = tokio::io::split(stream);
    let mut state = shared.state.subscribe();
    let why = tokio::select! {
        read = read(&shared, from, &peer, number) => read.err().map_or("closed by the peer".to_owned(), |error| error.to_string()),
        written = write(&outgoing, to) => written.err().map_or("closed here".to_owned(), |error| error.to_string()),
        _ = state.wait_for(|state| state.has_ended) => "the node has ended".to_owned(),
    };
    tracing::debug!(target: "leasehold::cluster", peer = &*peer, number, why, "link lost");
    link_down(&shared, &peer, &outgoing);
}

/// `None` when a newer link to the same peer is there already.
fn link_up(shared: &Arc<Shared>, peer: &PeerAddress, number: u64) -> Option<Arc<Outgoing>> {
    let outgoing = Arc::new(Outgoing::new(Arc::clone(&shared.slow_links)));
    let added = Arc::clone(&outgoing);
    shared.act(|inner, clocks| {
        if inner.link_numbers.get(peer).is_some_and(|last| *last >= number) {
            return None;
        }
        inner.link_numbers.insert(Arc::clone(peer), number);
        if let Some(before) = inner.links.insert(Arc::clone(peer), added) {
            before.close();
        }
        inner.node.handle_link(clocks, peer, Some(number));
        Some(outgoing)
    })
}

fn link_down(shared: &Arc<Shared>, peer: &PeerAddress, outgoing: &Arc<Outgoing>) {
    outgoing.close();
    shared.act(|inner, clocks| {
        if inner.links.get(peer).is_some_and(|link| Arc::ptr_eq(link, outgoing)) {
            inner.links.remove(peer);
            inner.node.handle_link(clocks, peer, None);
            shared.counts.links_lost.one_more();
        }
    });
}

async fn write(outgoing: &Outgoing, mut to: impl AsyncWrite + Unpin) -> io::Result<()> {
    while let Some(frame) = outgoing.next_frame().await {
        timeout(DEAD_AFTER, to.write_all(&frame)).await.map_err(|_| late())??;
        outgoing.set_slow(false);
    }
    Ok(())
}

async fn read(shared: &Arc<Shared>, from: impl AsyncRead + Unpin, peer: &PeerAddress, number: u64) -> io::Result<()> {
    let mut from = BufReader::with_capacity(64 << 10, from);
    let mut frame = Vec::new();
    while timeout(DEAD_AFTER, read_frame(&mut from, &mut frame, FRAME_BYTES_MAX)).await.map_err(|_| late())?? {
        let messages = wire::messages(&frame).collect::<Result<Vec<_>, _>>().map_err(io::Error::other)?;
        if messages.is_empty() {
            continue;
        }
        shared.act(|inner, clocks| {
            for message in messages {
                inner.node.handle_message(clocks, peer, number, message);
            }
        });
    }
    Ok(())
}

/// Reads a frame. `false` at the end of the stream.
pub(crate) async fn read_frame(
    from: &mut (impl AsyncRead + Unpin),
    frame: &mut Vec<u8>,
    bytes_max: usize,
) -> io::Result<bool> {
    let len = match from.read_u32().await {
        Ok(len) => len as usize,
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
        Err(error) => return Err(error),
    };
    if len > bytes_max {
        return Err(io::Error::other(format!("a frame of {len} bytes, at most {bytes_max} are allowed")));
    }
    frame.clear();
    // As they come: the length alone makes nothing grow.
    let read = from.take(len as u64).read_to_end(frame).await?;
    if read < len {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(true)
}

/// Writes a value as a frame of its own.
pub(crate) async fn write_value(to: &mut (impl AsyncWrite + Unpin), value: &impl serde::Serialize) -> io::Result<()> {
    let mut frame = vec![0; HEADER_BYTES];
    wire::encode(value, &mut frame);
    let len = u32::try_from(frame.len() - HEADER_BYTES).expect("a greeting is short");
    frame[..HEADER_BYTES].copy_from_slice(&len.to_be_bytes());
    to.write_all(&frame).await
}

fn late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, format!("no sign of life for {} s", DEAD_AFTER.as_secs()))
}
