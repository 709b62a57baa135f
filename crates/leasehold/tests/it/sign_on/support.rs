//! A server with callers that sign on, and those callers.

use std::path::Path;

use tempfile::TempDir;

use crate::support::{Client, Launch, Response, Server, leasehold, output_of};

/// A server and the file it was started with.
pub(crate) struct Guarded {
    pub(crate) server: Server,
    pub(crate) directory: TempDir,
}

/// A caller with an API token.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) token: String,
    /// The lines for the configuration.
    pub(crate) snippet: String,
}

impl Member {
    /// Made by the real `leasehold token new`.
    pub(crate) fn new(name: &str, roles: &[&str]) -> Member {
        let mut command = leasehold();
        command.args(["token", "new", "--name", name]);
        for role in roles {
            command.args(["--role", role]);
        }
        let output = output_of(&mut command);
        assert_eq!(output.status.code(), Some(0));
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Member { token: text(output.stdout).trim().to_owned(), snippet: text(output.stderr) }
    }

    pub(crate) fn bearer(&self) -> String {
        format!("Bearer {}", self.token)
    }

    /// The same credential, as Terraform and Jenkins send it.
    pub(crate) fn basic(&self, user: &str) -> String {
        use base64::Engine as _;
        format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(format!("{user}:{}", self.token)))
    }
}

impl Guarded {
    pub(crate) fn start(config: &str) -> Guarded {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("leasehold.toml"), config).unwrap();
        let server = launch(directory.path()).start();
        Guarded { server, directory }
    }

    pub(crate) fn rewrite(&self, config: &str) {
        std::fs::write(self.directory.path().join("leasehold.toml"), config).unwrap();
    }

    /// One request of this member; of an anonymous caller without one.
    pub(crate) fn ask(&self, member: Option<&Member>, method: &str, target: &str, body: &str) -> Response {
        self.ask_with(member, &[], method, target, body)
    }

    pub(crate) fn ask_with(
        &self,
        member: Option<&Member>,
        headers: &[(&str, &str)],
        method: &str,
        target: &str,
        body: &str,
    ) -> Response {
        let bearer = member.map(Member::bearer);
        let mut all: Vec<(&str, &str)> = headers.to_vec();
        all.extend(bearer.as_deref().map(|bearer| ("authorization", bearer)));
        self.client().call_with(method, target, &all, body.as_bytes()).unwrap()
    }

    pub(crate) fn client(&self) -> Client {
        self.server.client()
    }
}

pub(crate) fn launch(directory: &Path) -> Launch {
    Launch::on(&directory.join("data")).arg("--config").arg(directory.join("leasehold.toml"))
}
