//! An HTTPS client that keeps its connection, shows a certificate if it has one, and knows which one it was shown.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::Value;

use super::authority::{Authority, Pair};
use crate::support::PATIENCE;

#[derive(Debug)]
pub(crate) struct HttpsClient {
    stream: BufReader<StreamOwned<ClientConnection, TcpStream>>,
}

impl HttpsClient {
    /// Connects, believing in `authority`. With TLS 1.3 a client hears only later that its certificate was refused.
    pub(crate) fn connect(addr: SocketAddr, authority: &Authority, own: Option<&Pair>) -> io::Result<HttpsClient> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
        let builder = builder.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
        let config = match own {
            None => builder.with_no_client_auth(),
            Some(pair) => {
                let chain = vec![CertificateDer::from_pem_slice(pair.cert.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        let mut session = ClientConnection::new(Arc::new(config), ServerName::from(addr.ip())).unwrap();
        let mut stream = TcpStream::connect_timeout(&addr, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        while session.is_handshaking() {
            session.complete_io(&mut stream)?;
        }
        Ok(HttpsClient { stream: BufReader::new(StreamOwned::new(session, stream)) })
    }

    /// The server's certificate.
    pub(crate) fn shown(&self) -> Vec<u8> {
        self.stream.get_ref().conn.peer_certificates().unwrap()[0].to_vec()
    }

    pub(crate) fn get(&mut self, target: &str, bearer: Option<&str>) -> io::Result<(u16, Value)> {
        self.call("GET", target, bearer, "")
    }

    /// The status of the answer and its body, which is JSON.
    pub(crate) fn call(
        &mut self,
        method: &str,
        target: &str,
        bearer: Option<&str>,
        body: &str,
    ) -> io::Result<(u16, Value)> {
        let (head, body) = self.exchange(method, target, bearer, body)?;
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap();
        Ok((status, serde_json::from_slice(&body).unwrap_or(Value::Null)))
    }

    /// The head of the answer as it came, and its body.
    pub(crate) fn exchange(
        &mut self,
        method: &str,
        target: &str,
        bearer: Option<&str>,
        body: &str,
    ) -> io::Result<(String, Vec<u8>)> {
        let authorization = bearer.map_or(String::new(), |token| format!("authorization: Bearer {token}\r\n"));
        let length = body.len();
        let head =
            format!("{method} {target} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n{authorization}\r\n");
        let stream = self.stream.get_mut();
        stream.write_all(format!("{head}{body}").as_bytes())?;
        stream.flush()?;
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.stream.read_line(&mut head)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let length =
            head.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or(0, |n| n.parse().unwrap());
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        Ok((head, body))
    }
}
