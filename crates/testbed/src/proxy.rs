//! A proxy for any TCP connection, with faults for each way that can be changed while connections are open.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

const READ_BYTES: usize = 64 << 10;
/// Reads under way in a proxy that delays.
const QUEUED_MAX: usize = 1024;

/// The way that bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the side that connected.
    Request,
    /// To it.
    Reply,
}

/// The treatment of bytes on one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Flow {
    /// At once.
    #[default]
    Pass,
    /// So much later, in order.
    Delay(Duration),
    /// Not before this ends; then all of them, as after a network that came back.
    Stall,
    /// The next bytes still get through, then the connection is cut. On the way of requests: a request is executed and
    /// its reply is lost.
    CutAfter,
    /// The connection is cut instead of letting the next bytes through. On the way of replies, a reply is lost.
    CutBefore,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Faults {
    request: Flow,
    reply: Flow,
    /// Connections that began before this many cuts are cut.
    cuts: u64,
    /// New connections are closed at once.
    is_closed: bool,
}

/// A listener on loopback that passes connections on.
#[derive(Debug)]
pub struct Proxy {
    addr: SocketAddr,
    faults: Arc<watch::Sender<Faults>>,
    connections: Arc<AtomicU64>,
    cut: Arc<AtomicU64>,
}

impl Proxy {
    /// A proxy to `upstream`, with a thread of its own, which ends with this value.
    ///
    /// # Panics
    /// When the machine has no ports or threads left.
    pub fn start(upstream: SocketAddr) -> Proxy {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has free ports");
        listener.set_nonblocking(true).expect("a socket can be asynchronous");
        let addr = listener.local_addr().expect("it is bound");
        let (faults, seen) = watch::channel(Faults::default());
        let proxy = Proxy { addr, faults: Arc::new(faults), connections: Arc::default(), cut: Arc::default() };
        let (connections, cut) = (Arc::clone(&proxy.connections), Arc::clone(&proxy.cut));
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        thread::spawn(move || {
            runtime.block_on(async move {
                let listener = TcpListener::from_std(listener).expect("the runtime has sockets");
                let mut ended = seen.clone();
                loop {
                    tokio::select! {
                        // The proxy was dropped.
                        gone = ended.changed() => if gone.is_err() { return },
                        accepted = listener.accept() => {
                            let Ok((client, _)) = accepted else { continue };
                            connections.fetch_add(1, Ordering::Relaxed);
                            tokio::spawn(carry(client, upstream, seen.clone(), Arc::clone(&cut)));
                        }
                    }
                }
            });
        });
        proxy
    }

    /// Where to connect instead.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Treats bytes on one way so from now on, on open connections as well.
    pub fn set(&self, way: Way, flow: Flow) {
        self.faults.send_modify(|faults| match way {
            Way::Request => faults.request = flow,
            Way::Reply => faults.reply = flow,
        });
    }

    /// Both ways.
    pub fn set_both(&self, flow: Flow) {
        self.faults.send_modify(|faults| (faults.request, faults.reply) = (flow, flow));
    }

    /// Cuts every open connection.
    pub fn cut(&self) {
        self.faults.send_modify(|faults| faults.cuts += 1);
    }

    /// Cuts every connection, and new ones at once, until it is opened.
    pub fn close(&self) {
        self.faults.send_modify(|faults| (faults.cuts, faults.is_closed) = (faults.cuts + 1, true));
    }

    /// Ends every fault.
    pub fn heal(&self) {
        self.faults.send_modify(|faults| {
            *faults = Faults { cuts: faults.cuts, ..Faults::default() };
        });
    }

    /// Connections so far.
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Connections that were cut by a fault.
    pub fn cuts(&self) -> u64 {
        self.cut.load(Ordering::Relaxed)
    }
}

async fn carry(client: TcpStream, upstream: SocketAddr, faults: watch::Receiver<Faults>, cut: Arc<AtomicU64>) {
    let began = *faults.borrow();
    if began.is_closed {
        cut.fetch_add(1, Ordering::Relaxed);
        return;
    }
    let Ok(server) = TcpStream::connect(upstream).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let is_cut = tokio::select! {
        // Either end closes both: the protocols here do not leave one half open.
        is_cut = pump(from_client, to_server, Way::Request, faults.clone()) => is_cut,
        is_cut = pump(from_server, to_client, Way::Reply, faults.clone()) => is_cut,
        () = until_cut(faults, began.cuts) => true,
    };
    cut.fetch_add(u64::from(is_cut), Ordering::Relaxed);
}

async fn until_cut(mut faults: watch::Receiver<Faults>, began: u64) {
    // A proxy that is gone cuts, too.
    let _ = faults.wait_for(|faults| faults.cuts > began).await;
}

/// Carries bytes one way until the connection ends. True if it was cut.
async fn pump(mut from: OwnedReadHalf, to: OwnedWriteHalf, way: Way, mut faults: watch::Receiver<Faults>) -> bool {
    let (queue, queued) = mpsc::channel(QUEUED_MAX);
    let mut deliver = tokio::spawn(deliver(to, queued));
    let is_cut = loop {
        if until_flowing(&mut faults, way).await.is_err() {
            break true;
        }
        let mut bytes = vec![0; READ_BYTES];
        let read = tokio::select! {
            read = from.read(&mut bytes) => read,
            _ = &mut deliver => break false,
            // Look again: it may have to stall now.
            _ = faults.changed() => continue,
        };
        let Ok(count @ 1..) = read else { break false };
        bytes.truncate(count);
        // Bytes that arrive while it stalls wait here, the next ones in the socket.
        let Ok(flow) = until_flowing(&mut faults, way).await else { break true };
        let mut at = Instant::now();
        match flow {
            Flow::CutBefore => {
                deliver.abort();
                break true;
            }
            Flow::Delay(delay) => at += delay,
            Flow::Pass | Flow::Stall | Flow::CutAfter => {}
        }
        if queue.send((at, bytes)).await.is_err() {
            break false;
        }
        if flow == Flow::CutAfter {
            break true;
        }
    };
    drop(queue);
    if !deliver.is_finished() {
        let _ = deliver.await;
    }
    is_cut
}

/// Waits while this way stalls, and returns how it flows.
async fn until_flowing(faults: &mut watch::Receiver<Faults>, way: Way) -> Result<Flow, watch::error::RecvError> {
    let of = |faults: &Faults| match way {
        Way::Request => faults.request,
        Way::Reply => faults.reply,
    };
    let faults = faults.wait_for(|faults| of(faults) != Flow::Stall).await?;
    Ok(of(&faults))
}

async fn deliver(mut to: OwnedWriteHalf, mut queued: mpsc::Receiver<(Instant, Vec<u8>)>) -> io::Result<()> {
    while let Some((at, bytes)) = queued.recv().await {
        sleep_until(at).await;
        to.write_all(&bytes).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write};
    use std::net::TcpStream;

    use super::*;

    /// Says everything back.
    fn echo() -> SocketAddr {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let addr = listener.local_addr().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || {
                    let (mut from, mut to) = (stream.try_clone().unwrap(), stream);
                    let _ = io::copy(&mut from, &mut to);
                });
            }
        });
        addr
    }

    fn ask(stream: &mut TcpStream, word: &str) -> io::Result<String> {
        stream.write_all(word.as_bytes())?;
        let mut reply = vec![0; word.len()];
        stream.read_exact(&mut reply)?;
        Ok(String::from_utf8(reply).unwrap())
    }

    fn connect(proxy: &Proxy) -> TcpStream {
        let stream = TcpStream::connect(proxy.addr()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    #[test]
    fn bytes_pass_and_connections_are_counted() {
        let proxy = Proxy::start(echo());
        let mut stream = connect(&proxy);
        assert_eq!(ask(&mut stream, "one").unwrap(), "one");
        assert_eq!(ask(&mut stream, &"x".repeat(300_000)).unwrap().len(), 300_000);
        assert_eq!((proxy.connections(), proxy.cuts()), (1, 0));
    }

    #[test]
    fn a_delay_is_waited_for_once_for_all_that_is_under_way() {
        let proxy = Proxy::start(echo());
        let mut stream = connect(&proxy);
        proxy.set(Way::Reply, Flow::Delay(Duration::from_millis(200)));
        let began_at = std::time::Instant::now();
        assert_eq!(ask(&mut stream, &"x".repeat(500_000)).unwrap().len(), 500_000);
        let took = began_at.elapsed();
        assert!(took >= Duration::from_millis(200), "{took:?}");
        assert!(took < Duration::from_millis(1400), "each of eight reads was delayed by itself: {took:?}");
    }

    #[test]
    fn stalled_bytes_arrive_after_it() {
        let proxy = Proxy::start(echo());
        let mut stream = connect(&proxy);
        proxy.set(Way::Request, Flow::Stall);
        stream.write_all(b"late").unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let mut reply = [0; 4];
        let silent = stream.read(&mut reply).unwrap_err().kind();
        assert!(matches!(silent, ErrorKind::WouldBlock | ErrorKind::TimedOut), "{silent:?}");
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        proxy.heal();
        stream.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"late");
    }

    #[test]
    fn cuts_before_and_after_and_at_once() {
        let proxy = Proxy::start(echo());
        for (way, flow) in
            [(Way::Request, Flow::CutAfter), (Way::Request, Flow::CutBefore), (Way::Reply, Flow::CutBefore)]
        {
            let mut stream = connect(&proxy);
            assert_eq!(ask(&mut stream, "warm").unwrap(), "warm");
            proxy.set(way, flow);
            ask(&mut stream, "lost").expect_err("the reply is lost");
            proxy.heal();
        }
        let mut stream = connect(&proxy);
        assert_eq!(ask(&mut stream, "warm").unwrap(), "warm");
        proxy.cut();
        ask(&mut stream, "lost").expect_err("it was cut");
        proxy.close();
        ask(&mut connect(&proxy), "lost").expect_err("it is closed");
        proxy.heal();
        assert_eq!(ask(&mut connect(&proxy), "back").unwrap(), "back");
        assert_eq!(proxy.cuts(), 5);
    }
}
