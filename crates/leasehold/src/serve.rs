//! `leasehold serve`: configuration, log, socket, signals, in this order; then the service until it is told to stop.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use leasehold_journal::StoreError;
use leasehold_server::{App, Audience, AuditLog, Lead, Observer, Partitions, Settings, default_threads, http};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::config::ServeArgs;
use crate::config::{self, AuditTo, Config, ConfigError, ListenAddress, Loaded, Store};
use crate::driving::{Driving, Stopped, resolve};
use crate::exit::Exit;
use crate::sign_on::InForce;
use crate::tls::Keeper;
use crate::{files, logging, notify, proof_keys, sign_on};

/// An embedded service has exactly one partition.
pub(crate) const PARTITION: u32 = 0;

/// Serves, or prints the configuration, and returns how it went.
pub(crate) fn run(args: &ServeArgs) -> Exit {
    let loaded = match config::load(args, std::env::vars_os(), |path| std::fs::read_to_string(path)) {
        Ok(loaded) => loaded,
        Err(error) => {
            eprintln!("leasehold: {error}");
            return Exit::Usage;
        }
    };
    if args.print_config {
        out!("{}", loaded.to_toml());
        return Exit::Done;
    }
    match serve(loaded, args) {
        Ok(()) => Exit::Done,
        Err(error) => {
            tracing::error!("{error:#}");
            exit_for(&error)
        }
    }
}

/// The exit code of a failure, for scripts and service managers.
fn exit_for(error: &anyhow::Error) -> Exit {
    if let Some(Stopped(why)) = error.downcast_ref() {
        return match **why {
            // If a service manager started it again, it would begin with nothing.
            StoreError::Disturbed { .. } => Exit::Damaged,
            _ => Exit::StoreFailed,
        };
    }
    if error.is::<ConfigError>() {
        return Exit::Usage;
    }
    error.downcast_ref::<StoreError>().map_or(Exit::Failed, Exit::from)
}

fn serve(Loaded { mut config, warnings, .. }: Loaded, args: &ServeArgs) -> anyhow::Result<()> {
    // Held until the end, so that the last spans are sent, too.
    #[cfg(feature = "otlp")]
    let _traces = if let Some(endpoint) = &config.otlp_endpoint {
        let traces = crate::otlp::Traces::to(endpoint)?;
        logging::start_with(config.log_format, &config.log_filter, &traces)?;
        Some(traces)
    } else {
        logging::start(config.log_format, &config.log_filter)?;
        None
    };
    #[cfg(not(feature = "otlp"))]
    logging::start(config.log_format, &config.log_filter)?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    keep_pages_small();
    let http = &mut config.settings.http;
    http.connections_max = files::make_room(http.connections_max);
    // Several partitions have several committers, and no single one that could lead.
    let partitions = config.partitions.filter(|_| config.store == Store::Memory).unwrap_or(Partitions::ONE);
    let threads = config.threads.unwrap_or_else(default_threads).max(partitions.number().min(2) as usize);
    // A node of a cluster has no committer that blocks a thread.
    if threads == 1 && !matches!(config.store, Store::Shared(_)) {
        let lead = Lead::new().context("no runtime")?;
        return lead.run(serve_until_told(config, args.clone(), Some(Arc::clone(&lead))));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()
        .context("no runtime")?;
    let outcome = runtime.block_on(serve_until_told(config, args.clone(), None));
    // A thread that waits for a store that hangs cannot be waited for.
    runtime.shutdown_timeout(Duration::from_secs(1));
    outcome
}

/// With a lead, on its runtime, else on one of several threads.
async fn serve_until_told(config: Config, args: ServeArgs, lead: Option<Arc<Lead>>) -> anyhow::Result<()> {
    // Before the socket, so that a signal that comes early is not lost.
    let told = told_to_stop().context("signals cannot be waited for")?;
    let partitions = config.partitions.filter(|_| config.store == Store::Memory).unwrap_or(Partitions::ONE);
    let observer = Observer::of_many(config.settings.events_kept, partitions.number());
    let observer = Arc::new(observer.logging_renewals(config.settings.log_renewals));
    let tls = config.tls.as_ref().map(|files| Keeper::start(files, &observer)).transpose()?.map(Arc::new);
    let audit = open_audit_log(&config)?;
    // Callers that connect from here on wait in the socket's backlog until the journal has been read.
    let (listener, addr) = listen_on(&config.listen)?;
    let operators = config.admin_listen.as_ref().map(listen_on).transpose()?;
    let driver = Driving::start(&config, &observer, lead.as_ref(), tls.as_ref()).await?;
    let proof_keys = proof_keys::open(&config.store, driver.shared_store()).await?;
    let guard = sign_on::start(config.sign_on.clone(), driver.secret())?;
    let in_force = InForce { guard: Arc::clone(&guard), tls: tls.clone(), secret: driver.secret() };
    let reloads = sign_on::reload_when_told(args, in_force).context("signals cannot be waited for")?;
    if let Some((_, addr)) = &operators {
        let scheme = config.scheme();
        tracing::info!("metrics, events, dashboard and admin actions are served on {scheme}://{addr} alone");
    }
    announce(addr, &config);
    warn_if_public(std::iter::once(addr).chain(operators.as_ref().map(|(_, addr)| *addr)), &config);
    notify::ready();

    let http_limits = config.settings.http.clone();
    let operators_addr = operators.as_ref().map(|(_, addr)| *addr);
    let app = |audience| {
        let callers_addr = (audience == Audience::Operators).then_some(addr);
        let is_loopback = if audience == Audience::Operators { operators_addr.unwrap_or(addr) } else { addr }
            .ip()
            .to_canonical()
            .is_loopback();
        let settings = Settings { callers_addr, is_loopback, ..config.settings.clone() };
        let app = App::facing(audience, settings, driver.handle(), Arc::clone(&observer));
        Arc::new(app.guarded(Arc::clone(&guard)).proving(Arc::clone(&proof_keys)).audited(audit.clone()))
    };
    let (stop, stopped) = watch::channel(false);
    let until_stopped = || {
        let mut stopped = stopped.clone();
        // A closed channel also means that the service has stopped.
        async move { drop(stopped.wait_for(|is_stopped| *is_stopped).await) }
    };
    let serving = async {
        match operators {
            None => serve_on(listener, tls.as_ref(), app(Audience::Whole), http_limits, until_stopped()).await,
            Some((operators, _)) => {
                let callers =
                    serve_on(listener, tls.as_ref(), app(Audience::Callers), http_limits.clone(), until_stopped());
                let operators =
                    serve_on(operators, tls.as_ref(), app(Audience::Operators), http_limits, until_stopped());
                tokio::join!(callers, operators);
            }
        }
    };
    let renewing = async {
        match tls.clone() {
            Some(keeper) => keeper.watch().await,
            None => std::future::pending().await,
        }
    };
    let watching = async {
        tokio::select! {
            () = notify::keep_watched(driver.handle()) => {}
            // A server that stops commits no more, and that is as it should be.
            () = until_stopped() => {}
        }
        std::future::pending::<()>().await;
    };
    let stopping = async {
        told.await;
        notify::stopping();
        // Waiting callers are told at once, so that none holds up the end.
        driver.close();
        stop.send_replace(true);
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = serving => {}
        () = stopping => {}
        error = driver.failure() => return Err(Stopped(error).into()),
        () = reloads => unreachable!("signals do not run out"),
        () = watching => {}
        () = renewing => {}
    }
    driver.shut_down().await?;
    tracing::info!("stopped");
    Ok(())
}

fn open_audit_log(config: &Config) -> anyhow::Result<Option<Arc<AuditLog>>> {
    let log = match &config.audit_log {
        None => return Ok(None),
        Some(AuditTo::Stderr) => AuditLog::to_stderr(config.audit_required),
        Some(AuditTo::File(path)) => AuditLog::to_file(path, config.audit_required)
            .with_context(|| format!("the audit log {} cannot be written", path.display()))?,
    };
    Ok(Some(Arc::new(log)))
}

/// Serves plain HTTP, or HTTPS alone.
async fn serve_on(
    listener: TcpListener,
    tls: Option<&Arc<Keeper>>,
    app: Arc<App>,
    limits: http::HttpLimits,
    until_stopped: impl Future<Output = ()>,
) {
    match tls {
        None => http::serve(listener, app, limits, until_stopped).await,
        Some(keeper) => http::serve_tls(listener, Arc::clone(keeper.tls()), app, limits, until_stopped).await,
    }
}

fn listen_on(address: &ListenAddress) -> anyhow::Result<(TcpListener, SocketAddr)> {
    let listener = resolve(address).and_then(http::bind).with_context(|| format!("cannot listen on {address}"))?;
    let addr = listener.local_addr().context("a listening socket has an address")?;
    Ok((listener, addr))
}

/// One line that says where it listens and where its data is.
fn announce(addr: SocketAddr, config: &Config) {
    let (version, scheme) = (env!("CARGO_PKG_VERSION"), config.scheme());
    match &config.store {
        Store::Directory(path) => {
            tracing::info!("leasehold {version} listening on {scheme}://{addr}, data in {}", path.display());
        }
        Store::Memory => {
            tracing::info!(
                "leasehold {version} listening on {scheme}://{addr}, data in memory only, lost when it stops"
            );
        }
        Store::Shared(store) => {
            tracing::info!("leasehold {version} listening on {scheme}://{addr}, a node of the cluster in {store}");
        }
    }
}

/// One warning about everything that is open to others.
fn warn_if_public(listening: impl Iterator<Item = SocketAddr>, config: &Config) {
    let public = listening.filter(|addr| !addr.ip().to_canonical().is_loopback());
    let public: Vec<String> = public.map(|addr| addr.to_string()).collect();
    if !public.is_empty() && config.sign_on.is_none() && !config.requires_certificates() {
        let public = public.join(" or ");
        tracing::warn!(
            "any client that can reach {public} can use this service: there is no authentication; \
             let callers sign on ([auth] in the configuration), or listen on 127.0.0.1, or restrict who can connect"
        );
    }
}

/// Resolves on the first SIGTERM or SIGINT. The handlers are in place when this returns.
#[cfg(unix)]
fn told_to_stop() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        let name = tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        };
        tracing::info!("stopping on {name}");
    })
}

#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "the same signature as on unix")]
fn told_to_stop() -> io::Result<impl Future<Output = ()>> {
    Ok(async {
        let _ = tokio::signal::ctrl_c().await;
        tracing::info!("stopping on ctrl-c");
    })
}

/// The allocator asks for huge pages, and with those every untouched half of a connection's buffer counts: twice the
/// memory for a parked waiter.
#[cfg(target_os = "linux")]
fn keep_pages_small() {
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::debug!(%error, "huge pages stay on, memory use will be higher");
    }
}

#[cfg(not(target_os = "linux"))]
fn keep_pages_small() {}
