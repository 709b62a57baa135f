//! A network that can be cut: a relay that goes on reading and hands nothing on any more.

use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{SocketAddr, TcpListener, TcpStream};

pub(super) struct Relay {
    pub(super) addr: SocketAddr,
    is_cut: Arc<AtomicBool>,
}

impl Relay {
    pub(super) fn to(server: SocketAddr) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let is_cut = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&is_cut);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(upstream) = TcpStream::connect(server) else { continue };
                hand_on(client.try_clone().unwrap(), upstream.try_clone().unwrap(), Arc::clone(&flag));
                hand_on(upstream, client, Arc::clone(&flag));
            }
        });
        Relay { addr, is_cut }
    }

    pub(super) fn cut(&self) {
        self.is_cut.store(true, Ordering::SeqCst);
    }
}

fn hand_on(mut from: TcpStream, mut to: TcpStream, is_cut: Arc<AtomicBool>) {
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count) = from.read(&mut bytes) {
            if is_cut.load(Ordering::SeqCst) {
                continue_silently(&mut from);
                return;
            }
            if count == 0 || to.write_all(&bytes[..count]).is_err() {
                let _ = to.shutdown(std::net::Shutdown::Both);
                return;
            }
        }
    });
}

/// Neither end hears of the other, not even that it is gone.
fn continue_silently(from: &mut TcpStream) {
    let mut bytes = [0; 4096];
    while from.read(&mut bytes).is_ok_and(|count| count > 0) {}
    std::thread::sleep(std::time::Duration::from_mins(1));
}
