//! A connection's socket: its first bytes, which tell the protocol, and a watch over the rest. Below TLS where there is
//! TLS, so that progress means bytes that the peer sent or took, and not bytes that were buffered for it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::activity::Activity;

/// The first bytes of a connection, which tell HTTP/2 from HTTP/1, and either from TLS.
#[derive(Debug)]
pub(super) struct Opening {
    bytes: [u8; 4],
    filled: usize,
}

impl Opening {
    /// How HTTP/2 with prior knowledge begins. `PRI` is reserved for it, no other request starts like this.
    const HTTP2: [u8; 4] = *b"PRI ";

    /// How TLS begins: a record of the handshake. No method starts like this.
    const TLS: u8 = 0x16;

    /// Reads until it is clear which of them this is.
    pub(super) async fn read(stream: &TcpStream) -> io::Result<Opening> {
        let mut opening = Opening { bytes: [0; 4], filled: 0 };
        while opening.filled < opening.bytes.len() && Self::HTTP2.starts_with(opening.unread()) {
            stream.readable().await?;
            match stream.try_read(&mut opening.bytes[opening.filled..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => opening.filled += read,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(opening)
    }

    pub(super) fn is_http2(&self) -> bool {
        self.bytes == Self::HTTP2
    }

    pub(super) fn is_tls(&self) -> bool {
        self.filled > 0 && self.bytes[0] == Self::TLS
    }

    fn unread(&self) -> &[u8] {
        &self.bytes[..self.filled]
    }
}

/// The socket, noting in [`Activity`] that bytes came or went.
///
/// Bytes of the opening are handed over together with what follows them. On their own they would make hyper read twice,
/// and grow its buffer to twice the size for as long as the connection lives.
#[derive(Debug)]
pub(super) struct Watched {
    opening: Opening,
    read: OwnedReadHalf,
    line: Line,
    activity: Arc<Activity>,
}

impl Watched {
    pub(super) fn new(stream: TcpStream, opening: Opening, activity: Arc<Activity>) -> Self {
        let (read, write) = stream.into_split();
        Watched { opening, read, line: Line(Arc::new(write)), activity }
    }

    /// For the connection's driver, which has to know when the peer leaves.
    pub(super) fn line(&self) -> Line {
        self.line.clone()
    }
}

/// The socket, shared with the connection's driver. Reading stays with hyper, which takes bytes in order and so does
/// not see the end of what it has not read; writing and looking need no order.
#[derive(Clone, Debug)]
pub(super) struct Line(Arc<OwnedWriteHalf>);

impl Line {
    /// `true` where `hung_up` resolves.
    pub(super) const TELLS_OF_LEAVING: bool = cfg!(any(target_os = "linux", target_os = "android"));

    /// Resolves once the peer has closed its sending side or reset the connection, also when bytes it sent before that
    /// are still unread.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(super) async fn hung_up(&self) {
        // Stands for urgent data, which the socket is not registered for, and for the end of what the peer sends.
        let ready = self.0.ready(tokio::io::Interest::PRIORITY).await;
        if ready.is_ok_and(|ready| !ready.is_read_closed()) {
            std::future::pending::<()>().await;
        }
    }

    /// Returns whether bytes are there that hyper has not asked for, or the peer has left, which only `hung_up` tells
    /// apart. If neither, the task is woken when one of them comes. This costs a fraction of `hung_up`, and nearly
    /// every caller gets its answer first.
    pub(super) fn has_news(&self, cx: &mut Context<'_>) -> bool {
        let stream: &TcpStream = (*self.0).as_ref();
        Self::TELLS_OF_LEAVING && stream.poll_read_ready(cx).is_ready()
    }

    /// Elsewhere the end is seen when hyper reads it.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pub(super) async fn hung_up(&self) {
        std::future::pending::<()>().await;
    }
}

impl AsyncRead for Watched {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.opening.filled > 0 {
            buf.put_slice(self.opening.unread());
            self.opening.filled = 0;
            // Something was read, and perhaps more is there. An error will be there next time, too.
            let _ = Pin::new(&mut self.read).poll_read(cx, buf);
            return Poll::Ready(Ok(()));
        }
        let read = Pin::new(&mut self.read).poll_read(cx, buf);
        match &read {
            Poll::Ready(Ok(())) => self.activity.on_read(),
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.activity.on_reading(),
        }
        read
    }
}

impl AsyncWrite for Watched {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let stream: &TcpStream = (*self.line.0).as_ref();
        loop {
            match stream.try_write(buf) {
                Ok(written) => {
                    self.activity.on_written();
                    return Poll::Ready(Ok(written));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
            self.activity.on_blocked();
            ready!(stream.poll_write_ready(cx))?;
        }
    }

    /// A head and a body of some hundred bytes are written faster as one piece than as two: 4 % of a durable request's
    /// CPU.
    fn is_write_vectored(&self) -> bool {
        false
    }

    /// hyper flushes once it has nothing left to write, so everything it was given is with the operating system by now.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.activity.on_flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let stream: &TcpStream = (*self.line.0).as_ref();
        Poll::Ready(socket2::SockRef::from(stream).shutdown(std::net::Shutdown::Write))
    }
}
