//! `leasehold healthcheck`: asks the server on this machine whether it is well. For containers, which have no curl; reads the
//! same environment and configuration as `serve`, so it needs no arguments there.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

use crate::cli::{HealthcheckArgs, ServeArgs};
use crate::exit::{Exit, Failure};
use crate::{config, serve};

/// For connecting, and for each part of the answer.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) fn run(args: &HealthcheckArgs) -> Exit {
    let path = if args.ready { "/readyz" } else { "/healthz" };
    let asked = address(args).and_then(|addr| {
        let failed = |error: io::Error| Failure::failed(format!("no answer from {addr}: {error}"));
        match ask(addr, path).map_err(failed)? {
            answer if answer.starts_with("HTTP/1.1 200 ") => Ok(()),
            answer => {
                let status = answer.lines().next().unwrap_or_default();
                Err(Failure::failed(format!("{path} on {addr} answered {status:?}")))
            }
        }
    });
    match asked {
        Ok(()) => Exit::Done,
        Err(failure) => failure.told(),
    }
}

/// Where to find a server that was told to listen there.
fn address(args: &HealthcheckArgs) -> Result<SocketAddr, Failure> {
    let serve_args = ServeArgs { listen: args.listen.clone(), config: args.config.clone(), ..ServeArgs::default() };
    let loaded = config::load(&serve_args, std::env::vars_os(), |path| std::fs::read_to_string(path));
    let listen = loaded.map_err(|error| Failure::usage(error.to_string()))?.config.listen;
    let addr = serve::resolve(&listen).map_err(|error| Failure::usage(format!("listen: {listen}: {error}")))?;
    Ok(SocketAddr::new(reachable(addr.ip()), addr.port()))
}

/// Who listens on every address listens on loopback.
fn reachable(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    }
}

fn ask(addr: SocketAddr, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&addr, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: {addr}\r\nconnection: close\r\n\r\n").as_bytes())?;
    // The status is in the first bytes; an answer about health is short.
    let mut answer = String::new();
    stream.take(4096).read_to_string(&mut answer)?;
    Ok(answer)
}
