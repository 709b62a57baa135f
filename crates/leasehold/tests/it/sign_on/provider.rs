//! A real OpenID provider (`tests/oidc`, the npm package oidc-provider) as a process of the test's own.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::support::{Client, Response};

/// A provider that listens. It is killed when this is dropped.
pub(crate) struct Provider {
    child: Child,
    pub(crate) addr: SocketAddr,
}

impl Provider {
    pub(crate) fn start() -> Provider {
        Provider::start_on(0)
    }

    /// Where it was before, with keys of its own.
    pub(crate) fn start_on(port: u16) -> Provider {
        let directory = folder();
        assert!(directory.join("node_modules/oidc-provider").exists(), "scripts/oidc.sh installs what this needs");
        let mut child = Command::new("node")
            .arg("provider.mjs")
            .arg(port.to_string())
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let issuer = lines.find_map(|line| line.unwrap().strip_prefix("http://").map(str::to_owned));
        // The rest of its output is dropped, but must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        let addr = issuer.expect("it says where it listens").parse().unwrap();
        Provider { child, addr }
    }

    pub(crate) fn issuer(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// A token of a client of its own.
    pub(crate) fn token(&self, client: &str, resource: &str) -> String {
        let body = format!(
            "grant_type=client_credentials&scope=read&resource={resource}&client_id={client}&client_secret=secret%20of%20{client}"
        );
        self.post("/token", &body).expect(200).text("access_token")
    }

    /// From here on with other keys.
    pub(crate) fn rotate(&self) {
        self.post("/test/rotate", "").expect(200);
    }

    pub(crate) fn revoke(&self, client: &str, token: &str) {
        let body = format!("token={token}&client_id={client}&client_secret=secret%20of%20{client}");
        self.post("/token/revocation", &body).expect(200);
    }

    fn post(&self, path: &str, body: &str) -> Response {
        let host = self.addr.to_string();
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/x-www-form-urlencoded\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        let mut client = Client::connect(self.addr).unwrap();
        client.send_raw(request.as_bytes()).unwrap();
        client.receive().unwrap()
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/oidc")
}

impl Drop for Provider {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
