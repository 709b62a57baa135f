//! Which nodes are linked: of two nodes, the one whose address is the lower dials the other. Greetings are short,
//! bounded in number and in time.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use leasehold_cluster::{PeerAddress, wire};
use rustls::pki_types::ServerName;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::entrance::Shared;
use crate::hello::{Granted, Greeting, HELLO_BYTES_MAX, Hello, LinkKey, Ready, Side, Welcome, fresh_nonce};
use crate::link::{self, read_frame, write_value};
use crate::tls::LinkTls;

/// How long a greeting may take.
const GREETING_MAX: Duration = Duration::from_secs(3);
/// How often nodes without a link are tried again.
const DIAL_EVERY: Duration = Duration::from_millis(250);
/// Greetings under way at once.
const GREETINGS_MAX: usize = 64;
/// The name of the keying material that proofs cover.
const BINDING: &[u8] = b"EXPERIMENTAL-leasehold-link";

/// Everything that a greeting needs.
#[derive(Debug)]
pub(crate) struct Peers {
    pub(crate) shared: Arc<Shared>,
    pub(crate) key: LinkKey,
    pub(crate) tls: Option<LinkTls>,
}

/// A stream of either sort.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Accepts links for ever.
pub(crate) async fn accept(peers: Arc<Peers>, listener: TcpListener) {
    let places = Arc::new(Semaphore::new(GREETINGS_MAX));
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(target: "leasehold::cluster", %error, "a link cannot be accepted");
                tokio::time::sleep(DIAL_EVERY).await;
                continue;
            }
        };
        // Too many at once are strangers, or come again.
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
        let peers = Arc::clone(&peers);
        tokio::spawn(async move {
            let greeted = timeout(GREETING_MAX, peers.welcome(stream)).await;
            drop(place);
            match greeted {
                Ok(Ok(Some((stream, peer, number)))) => {
                    link::carry(Arc::clone(&peers.shared), stream, peer, number).await;
                }
                Ok(Ok(None)) | Err(_) => {}
                Ok(Err(error)) => tracing::debug!(target: "leasehold::cluster", %error, "a greeting failed"),
            }
        });
    }
}

/// Dials the nodes of the map that have no link, for ever.
pub(crate) async fn dial(peers: Arc<Peers>) {
    let (done, mut over) = mpsc::unbounded_channel::<PeerAddress>();
    let mut dialing = BTreeSet::new();
    let mut every = tokio::time::interval(DIAL_EVERY);
    loop {
        every.tick().await;
        while let Ok(peer) = over.try_recv() {
            dialing.remove(&peer);
        }
        for peer in unlinked(&peers.shared) {
            if !dialing.insert(Arc::clone(&peer)) {
                continue;
            }
            let (peers, done) = (Arc::clone(&peers), done.clone());
            tokio::spawn(async move {
                match timeout(GREETING_MAX, peers.greet(&peer)).await {
                    Ok(Ok((stream, number))) => {
                        let _ = done.send(Arc::clone(&peer));
                        link::carry(Arc::clone(&peers.shared), stream, peer, number).await;
                        return;
                    }
                    Ok(Err(error)) => {
                        tracing::debug!(target: "leasehold::cluster", peer = &*peer, %error, "a node is unreachable");
                    }
                    Err(_) => {
                        tracing::debug!(target: "leasehold::cluster", peer = &*peer, "a node does not answer in time");
                    }
                }
                let _ = done.send(peer);
            });
        }
    }
}

/// The living nodes that this one dials and has no link to.
fn unlinked(shared: &Shared) -> Vec<PeerAddress> {
    let inner = shared.lock();
    let Some(map) = inner.node.map() else { return Vec::new() };
    let addresses = map.living().map(|record| record.address.as_str());
    let wanted = addresses.filter(|address| *shared.address < **address && !inner.links.contains_key(*address));
    wanted.map(PeerAddress::from).collect()
}

impl Peers {
    async fn open(&self, peer: &str) -> io::Result<(Box<dyn Stream>, Vec<u8>)> {
        let stream = TcpStream::connect(peer).await?;
        stream.set_nodelay(true)?;
        let Some(tls) = &self.tls else { return Ok((Box::new(stream), Vec::new())) };
        let host = peer.rsplit_once(':').map_or(peer, |(host, _)| host.trim_matches(['[', ']']));
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let stream = TlsConnector::from(Arc::clone(&tls.dialing)).connect(name, stream).await?;
        let binding = stream.get_ref().1.export_keying_material([0; 32], BINDING, None).map_err(io::Error::other)?;
        Ok((Box::new(stream), binding.to_vec()))
    }

    /// Dials a node. Returns the stream and the number of the link.
    async fn greet(&self, peer: &PeerAddress) -> io::Result<(Box<dyn Stream>, u64)> {
        let (mut stream, greeting, granted) = self.introduce(peer).await?;
        let last = self.shared.lock().link_numbers.get(peer).copied().unwrap_or(0).max(granted.last);
        // By the wall clock, so that it is higher than those of an earlier process as well.
        let number = self.shared.clock.read().wall.0.max(last + 1);
        let proof = self.key.prove(&greeting, Side::Dialer { number });
        write_value(&mut stream, &Ready { number, proof }).await?;
        Ok((stream, number))
    }

    async fn introduce(&self, peer: &str) -> io::Result<(Box<dyn Stream>, Greeting, Granted)> {
        let (mut stream, binding) = self.open(peer).await?;
        let hello = Hello::new(&self.shared.address, peer);
        write_value(&mut stream, &hello).await?;
        let granted = match read_value(&mut stream).await? {
            Welcome::Granted(granted) => granted,
            Welcome::Refused(why) => return Err(io::Error::other(why)),
        };
        let greeting = Greeting { hello, nonce: granted.nonce, binding };
        let side = Side::Acceptor { instance: granted.instance, last: granted.last };
        if !self.key.is_proven(&greeting, side, &granted.proof) {
            return Err(io::Error::other("the process there is no node of this cluster"));
        }
        Ok((stream, greeting, granted))
    }

    /// Returns the process that answers at our own address: `true` if it is this one.
    pub(crate) async fn is_reached_at_own_address(&self) -> io::Result<bool> {
        let late = || io::Error::new(io::ErrorKind::TimedOut, "no answer");
        let (_, _, granted) =
            timeout(GREETING_MAX, self.introduce(&self.shared.address)).await.map_err(|_| late())??;
        Ok(granted.instance == self.shared.instance)
    }

    /// Greets a node that dialled. Returns nothing when it only wanted to see who is here.
    async fn welcome(&self, stream: TcpStream) -> io::Result<Option<(Box<dyn Stream>, PeerAddress, u64)>> {
        stream.set_nodelay(true)?;
        let (mut stream, binding): (Box<dyn Stream>, Vec<u8>) = match &self.tls {
            None => (Box::new(stream), Vec::new()),
            Some(tls) => {
                let stream = TlsAcceptor::from((tls.accepting)()).accept(stream).await?;
                let binding = stream.get_ref().1.export_keying_material([0; 32], BINDING, None);
                (Box::new(stream), binding.map_err(io::Error::other)?.to_vec())
            }
        };
        let hello: Hello = read_value(&mut stream).await?;
        let me = &self.shared.address;
        let Some(version) = hello.version() else {
            let (lowest, highest) = hello.speaks;
            let why = format!("this node speaks version {} of messages, not {lowest} to {highest}", wire::VERSION);
            write_value(&mut stream, &Welcome::Refused(why)).await?;
            return Ok(None);
        };
        if hello.to != **me {
            let why = format!("this is the node {me}, not {}", hello.to);
            write_value(&mut stream, &Welcome::Refused(why)).await?;
            return Ok(None);
        }
        let peer: PeerAddress = hello.from.as_str().into();
        let last = self.shared.lock().link_numbers.get(&peer).copied().unwrap_or(0);
        let greeting = Greeting { hello, nonce: fresh_nonce(), binding };
        let instance = self.shared.instance;
        let proof = self.key.prove(&greeting, Side::Acceptor { instance, last });
        let granted = Granted { version, instance, nonce: greeting.nonce, last, proof };
        write_value(&mut stream, &Welcome::Granted(granted)).await?;
        if peer == *me {
            return Ok(None);
        }
        let ready: Ready = read_value(&mut stream).await?;
        if !self.key.is_proven(&greeting, Side::Dialer { number: ready.number }, &ready.proof) {
            return Err(io::Error::other("a process that is no node of this cluster tried to link"));
        }
        Ok(Some((stream, peer, ready.number)))
    }
}

async fn read_value<T: DeserializeOwned>(stream: &mut Box<dyn Stream>) -> io::Result<T> {
    let mut frame = Vec::new();
    if !read_frame(stream, &mut frame, HELLO_BYTES_MAX).await? {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    wire::decode(&frame).map_err(io::Error::other)
}
