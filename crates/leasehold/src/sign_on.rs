//! Sign-on while serving: made from the configuration at the start, and again on SIGHUP, together with the certificate
//! (`tls`), without touching a connection. A wrong configuration is reported, and the one in force stays in full.

use std::io;
use std::sync::Arc;

use anyhow::Context as _;
use leasehold_auth::fetch::{Fetch, FetchError, Fetched, Form, HttpFetch};
use leasehold_auth::{SignOn, SignOnSettings};
use leasehold_server::{Guard, reloaded};

use crate::config::ServeArgs;
use crate::tls::{self, Keeper};
use crate::{config, notify};

/// The sign-on a server starts with.
pub(crate) fn start(settings: Option<SignOnSettings>, secret: Option<[u8; 32]>) -> anyhow::Result<Arc<Guard>> {
    let Some(settings) = settings else { return Ok(Arc::new(Guard::open())) };
    let fetch = fetch_for(&settings)?;
    Ok(Arc::new(Guard::new(SignOn::new(settings, &fetch, None, secret.as_ref()))))
}

/// The parts that a reload replaces.
#[derive(Clone, Debug)]
pub(crate) struct InForce {
    pub(crate) guard: Arc<Guard>,
    pub(crate) tls: Option<Arc<Keeper>>,
    /// Of the cluster, if this is a node of one.
    pub(crate) secret: Option<[u8; 32]>,
}

/// Reads the configuration again at every SIGHUP, for as long as it is polled. The handler is in place when this
/// returns.
#[cfg(unix)]
pub(crate) fn reload_when_told(args: ServeArgs, in_force: InForce) -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut hang_up = signal(SignalKind::hangup())?;
    Ok(async move {
        while hang_up.recv().await.is_some() {
            notify::reloading();
            match reload(&args, &in_force) {
                Ok(()) => reloaded("done"),
                Err(error) => {
                    tracing::error!("the configuration was not reloaded, the one before stays in force: {error:#}");
                    reloaded("failed");
                }
            }
            // Ready with the configuration in force, be it the old or the new.
            notify::ready();
        }
    })
}

#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "the same signature as on unix")]
pub(crate) fn reload_when_told(_: ServeArgs, _: InForce) -> io::Result<impl Future<Output = ()>> {
    Ok(std::future::pending())
}

fn reload(args: &ServeArgs, InForce { guard, tls, secret }: &InForce) -> anyhow::Result<()> {
    let loaded = config::load(args, std::env::vars_os(), |path| std::fs::read_to_string(path))?;
    for warning in loaded.warnings {
        tracing::warn!("{warning}");
    }
    let sign_on = match loaded.config.sign_on {
        None => None,
        Some(settings) => {
            let fetch = fetch_for(&settings)?;
            Some(SignOn::new(settings, &fetch, guard.current().as_deref(), secret.as_ref()))
        }
    };
    let was_on = guard.current().is_some();
    if was_on && sign_on.is_none() {
        // Removing sign-on is no change to make in passing.
        anyhow::bail!("[auth] is gone from it, and callers cannot be let in without it before a restart");
    }
    let certificate = match (tls, &loaded.config.tls) {
        (Some(keeper), Some(files)) => Some((keeper, tls::read(files)?)),
        (None, None) => None,
        (Some(_), None) => anyhow::bail!("tls_cert is gone from it, and plain HTTP cannot be served before a restart"),
        (None, Some(_)) => anyhow::bail!("tls_cert is new in it, and https cannot be served before a restart"),
    };
    // Nothing can go wrong from here on.
    let mut what = "sign-on, policies and limits";
    if let Some((keeper, fresh)) = certificate {
        keeper.replace(fresh);
        what = "sign-on, policies, limits and the certificate";
    }
    guard.replace(sign_on);
    tracing::info!("{what} were reloaded; other settings need a restart");
    Ok(())
}

/// Tokens and proxies need no questions to a provider, and so no list of certificates to trust.
fn fetch_for(settings: &SignOnSettings) -> anyhow::Result<Arc<dyn Fetch>> {
    if settings.oidc.is_some() || settings.introspection.is_some() {
        let fetch = HttpFetch::new().context("the list of trusted certificates could not be read")?;
        Ok(Arc::new(fetch))
    } else {
        Ok(Arc::new(NobodyToAsk))
    }
}

/// Stands in where no provider is configured.
#[derive(Debug)]
struct NobodyToAsk;

impl Fetch for NobodyToAsk {
    fn get<'a>(&'a self, url: &'a str) -> Fetched<'a> {
        Box::pin(async move { Err(FetchError::NotAUrl(url.to_owned())) })
    }

    fn post<'a>(&'a self, url: &'a str, _: Form) -> Fetched<'a> {
        self.get(url)
    }
}
