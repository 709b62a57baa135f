//! `leasehold healthcheck`: asks the server on this machine whether it is well. For containers, which have no curl;
//! reads the same environment and configuration as `serve`, so it needs no arguments there.

mod tls;

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

use crate::cli::HealthcheckArgs;
use crate::config::Config;
use crate::config::{Flags, ServeArgs};
use crate::exit::{Exit, Failure};
use crate::{config, driving};

/// For connecting, and for each part of the answer.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) fn run(args: &HealthcheckArgs) -> Exit {
    match check(args) {
        Ok(()) => Exit::Done,
        Err(failure) => failure.told(),
    }
}

fn check(args: &HealthcheckArgs) -> Result<(), Failure> {
    let path = if args.ready { "/readyz" } else { "/healthz" };
    let config = configured(args)?;
    let addr = address(&config)?;
    let own = args.cert.as_deref().zip(args.key.as_deref());
    let answer = if config.tls.is_some() || args.tls || own.is_some() {
        let client = tls::client(own).map_err(Failure::usage)?;
        connect(addr).and_then(|stream| tls::over(stream, addr, client)).and_then(|stream| ask(stream, addr, path))
    } else {
        connect(addr).and_then(|stream| ask(stream, addr, path))
    };
    match answer.map_err(|error| Failure::failed(format!("no answer from {addr}: {error}")))? {
        answer if answer.starts_with("HTTP/1.1 200 ") => Ok(()),
        answer => {
            let status = answer.lines().next().unwrap_or_default();
            Err(Failure::failed(format!("{path} on {addr} answered {status:?}")))
        }
    }
}

fn configured(args: &HealthcheckArgs) -> Result<Config, Failure> {
    let flags = args.listen.as_ref().map_or_else(Flags::default, |listen| Flags::one("listen", listen));
    let serve_args = ServeArgs { flags, config: args.config.clone(), ..ServeArgs::default() };
    let loaded = config::load(&serve_args, std::env::vars_os(), |path| std::fs::read_to_string(path));
    Ok(loaded.map_err(|error| Failure::usage(error.to_string()))?.config)
}

/// Where to find a server that was told to listen there.
fn address(Config { listen, .. }: &Config) -> Result<SocketAddr, Failure> {
    let addr = driving::resolve(listen).map_err(|error| Failure::usage(format!("listen: {listen}: {error}")))?;
    Ok(SocketAddr::new(reachable(addr.ip()), addr.port()))
}

/// A server that listens on every address listens on loopback.
fn reachable(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    }
}

fn connect(addr: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&addr, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

fn ask(mut stream: impl Read + Write, addr: SocketAddr, path: &str) -> io::Result<String> {
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: {addr}\r\nconnection: close\r\n\r\n").as_bytes())?;
    // The status is in the first bytes; an answer about health is short.
    let mut answer = String::new();
    stream.take(4096).read_to_string(&mut answer)?;
    Ok(answer)
}
