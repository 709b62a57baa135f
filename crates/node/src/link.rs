//! A link to another node: frames of messages in both directions (`outgoing`), and a sign of life every second.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use leasehold_cluster::PeerAddress;
use leasehold_cluster::wire::{self, FRAME_BYTES_MAX};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::time::timeout;

use crate::entrance::Shared;
use crate::outgoing::{HEADER_BYTES, Outgoing};

/// A link without any sign of life for so long is lost.
const DEAD_AFTER: Duration = Duration::from_secs(3);

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
        shared.act(|inner, clocks| inner.node.handle_messages(clocks, peer, number, messages));
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
