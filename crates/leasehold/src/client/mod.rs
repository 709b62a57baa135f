//! The shared part of every command that talks to a service: where the service is and which source named it, our
//! identity, and the sentence for a service that cannot be reached.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use leasehold_client::text::printable;
use leasehold_client::{Client, ClientBuilder, DEFAULT_URL, Error};
use serde::{Deserialize, Serialize};

/// How to reach a service. Everything may come from the environment too.
#[expect(clippy::doc_markdown, reason = "this is the help text")]
#[derive(Args, Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ConnectArgs {
    /// The service's address, or several of one service with commas between them [env: LEASEHOLD_URL] [default: this
    /// machine, port 8080]
    #[arg(long, value_name = "URL", help_heading = "Service")]
    pub(crate) url: Option<String>,

    /// A token to sign on with; other users of this machine can see it in the list of processes [env: LEASEHOLD_TOKEN]
    #[arg(long, value_name = "TOKEN", help_heading = "Service", conflicts_with = "token_file")]
    pub(crate) token: Option<ApiToken>,

    /// A file with the token, which is read again when it is refused [env: LEASEHOLD_TOKEN_FILE]
    #[arg(long, value_name = "FILE", help_heading = "Service")]
    pub(crate) token_file: Option<PathBuf>,

    /// PEM file with the certificates to trust [env: LEASEHOLD_CA_FILE] [default: those that the system trusts]
    #[arg(long, value_name = "FILE", help_heading = "Service")]
    pub(crate) ca_file: Option<PathBuf>,

    /// PEM file with a certificate to show [env: LEASEHOLD_CERT_FILE]
    #[arg(long, value_name = "FILE", help_heading = "Service", requires = "key_file")]
    pub(crate) cert_file: Option<PathBuf>,

    /// PEM file with its private key [env: LEASEHOLD_KEY_FILE]
    #[arg(long, value_name = "FILE", help_heading = "Service", requires = "cert_file")]
    pub(crate) key_file: Option<PathBuf>,

    /// The name that locks are held under, before the part that tells processes apart [default: user@host]
    #[arg(long, value_name = "NAME", help_heading = "Service")]
    pub(crate) name: Option<String>,
}

/// Text that is never shown.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct ApiToken(String);

impl std::fmt::Debug for ApiToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ApiToken")
    }
}

impl std::str::FromStr for ApiToken {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<ApiToken, Self::Err> {
        Ok(ApiToken(text.to_owned()))
    }
}

impl ConnectArgs {
    pub(crate) fn builder(&self) -> Result<ClientBuilder, Error> {
        let mut builder = ClientBuilder::from_env()?;
        if let Some(url) = &self.url {
            builder = builder.urls(url);
        }
        if let Some(ApiToken(token)) = &self.token {
            builder = builder.token(token);
        }
        if let Some(file) = &self.token_file {
            builder = builder.token_file(file);
        }
        if let Some(file) = &self.ca_file {
            builder = builder.ca_file(file);
        }
        if let (Some(cert), Some(key)) = (&self.cert_file, &self.key_file) {
            builder = builder.client_certificate(cert, key);
        }
        if let Some(name) = &self.name {
            builder = builder.name(name);
        }
        Ok(builder)
    }

    pub(crate) fn client(&self) -> Result<Client, Error> {
        self.builder()?.build()
    }

    /// The source of the address.
    pub(crate) fn origin(&self) -> &'static str {
        if self.url.is_some() {
            "from --url"
        } else if std::env::var_os("LEASEHOLD_URL").is_some_and(|url| !url.is_empty()) {
            "from LEASEHOLD_URL"
        } else {
            "the default, as neither --url nor LEASEHOLD_URL is given"
        }
    }

    /// The sentence for an error: the problem, and what to do.
    pub(crate) fn explain(&self, error: &Error) -> String {
        match error {
            Error::Unavailable(trouble) => format!(
                "no answer from {} ({}): {}\nTo start a service here: leasehold serve. To name another one: --url or LEASEHOLD_URL. \
                 To find out more: leasehold doctor",
                trouble.url,
                self.origin(),
                printable(&trouble.message)
            ),
            Error::Tls(trouble) => format!(
                "no TLS with {} ({}): {}\nThe authority to trust is named with --ca-file or LEASEHOLD_CA_FILE, a client certificate \
                 with --cert-file and --key-file or LEASEHOLD_CERT_FILE and LEASEHOLD_KEY_FILE",
                trouble.url,
                self.origin(),
                printable(&trouble.message)
            ),
            Error::Unauthenticated(trouble) => format!(
                "{} ({}) wants to know who is asking: {}\nSign on with --token-file, LEASEHOLD_TOKEN_FILE, or --cert-file and --key-file",
                trouble.url,
                self.origin(),
                printable(&trouble.message)
            ),
            Error::WrongHost(trouble) | Error::DifferentServices(trouble) => {
                format!("{trouble}; the address is {}", self.origin())
            }
            other => other.to_string(),
        }
    }

    /// The addresses in words, for a first line.
    pub(crate) fn shown(&self) -> String {
        let env = || std::env::var("LEASEHOLD_URL").ok().filter(|url| !url.is_empty());
        self.url.clone().or_else(env).unwrap_or_else(|| DEFAULT_URL.to_owned())
    }
}

/// A span as people write it: 500ms, 30s, 1m30s, 24h, 7d.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    leasehold_server::duration::parse_setting(text).map(Duration::from_micros).map_err(|error| error.to_string())
}
