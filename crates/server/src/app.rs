//! The service as hyper sees it: routes a request, lets its dialect make a command of it, waits for the durable answer,
//! lets the dialect word it.

use std::future::ready;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::header::{HOST, STRICT_TRANSPORT_SECURITY};
use http::request::Parts;
use http::{HeaderValue, Request, Response, StatusCode};
use hyper::body::Incoming;
use leasehold_auth::Identity;

use crate::access::Route;
use crate::audit_log::AuditLog;
use crate::auth::{self, Audit, Audited, From, Guard, Standing};
use crate::driver::Handle;
use crate::endpoint::{Action, Face, endpoints};
use crate::faces::page::Wanted;
use crate::faces::{Call, claims, dashboard, docs, ensure_position, lock, pools, sign_on, watch};
use crate::http::response::{POSITION, SERVICE};
use crate::http::router::Router;
use crate::http::{
    Body, Code, ConnectionNews, Handler, Peer, Problem, RequestId, Site, client_of, request, response, site,
};
use crate::metrics;
use crate::openapi;
use crate::settings::Settings;
use crate::trace::RequestSpan;
use crate::watch::Observer;

/// How long the store is believed to confirm writes since it last did.
const READY_EVERY_US: u64 = 1_000_000;

/// For a year browsers speak https alone to a name that was reached so.
const HTTPS_ONLY: HeaderValue = HeaderValue::from_static("max-age=31536000");

#[derive(Debug)]
pub struct App {
    settings: Settings,
    driver: Handle,
    observer: Arc<Observer>,
    router: Router<Action>,
    site: Site,
    /// When the app last checked whether changes become durable, and the result.
    readiness: tokio::sync::Mutex<Option<(u64, bool)>>,
    /// The OpenAPI document of this listener, as it is sent.
    document: Bytes,
    guard: Arc<Guard>,
    audit: Option<Arc<AuditLog>>,
    /// Which service this is, on every answer: a client with several URLs can tell that they lead to one.
    service: HeaderValue,
}

/// A call that made sense, freed from the bytes it came in.
#[derive(Debug)]
pub(crate) enum Asked {
    Pools(pools::Asked),
    Claims(claims::Asked),
    Lock(lock::Asked),
    Observe(watch::Asked),
    Page(Wanted),
    SignOn(sign_on::Asked),
    Health,
    Readiness,
    Metrics {
        as_openmetrics: bool,
    },
    /// May a page of another site call?
    Preflight {
        is_private_network: bool,
    },
}

/// A request but for its body.
#[derive(Debug)]
struct Came {
    parts: Parts,
    peer: Peer,
    /// The address for limits and logs.
    client: IpAddr,
    id: RequestId,
}

/// The facts about a request for its log lines, whether or not it was understood.
#[derive(Debug)]
struct Told {
    route: Route,
    audited: Option<Box<Audited>>,
}

/// A call that may be answered.
#[derive(Debug)]
struct Understood {
    asked: Asked,
    /// To be said when it is over.
    audit: Option<Box<Audit>>,
}

impl App {
    /// Serves everything there is.
    pub fn new(settings: Settings, driver: Handle, observer: Arc<Observer>) -> Self {
        App::facing(Face::Whole, settings, driver, observer)
    }

    /// Serves what one of two listeners is for.
    pub fn facing(face: Face, settings: Settings, driver: Handle, observer: Arc<Observer>) -> Self {
        observer.metrics.limits(settings.max_waiters, settings.http.connections_max);
        let router = Router::new(endpoints(face)).expect("the table of endpoints has no mistake");
        let document = openapi::document(face, &settings).to_string().into();
        let service = observer.digester().service().try_into().expect("hex digits make a header value");
        let Settings { is_loopback, public_url, allowed_hosts, allow_origin, .. } = &settings;
        let site = Site::new(*is_loopback, public_url.as_deref(), allowed_hosts, allow_origin);
        App {
            settings,
            driver,
            observer,
            router,
            site,
            readiness: tokio::sync::Mutex::default(),
            document,
            guard: Arc::default(),
            audit: None,
            service,
        }
    }

    /// The same, for callers that sign on.
    #[must_use]
    pub fn guarded(self, guard: Arc<Guard>) -> Self {
        App { guard, ..self }
    }

    /// The same, with a line in the audit log for every change.
    #[must_use]
    pub fn audited(self, audit: Option<Arc<AuditLog>>) -> Self {
        App { audit, ..self }
    }

    /// From bytes to a call that makes sense and is allowed.
    async fn understand(self: Arc<Self>, came: Came, body: Incoming) -> (Told, Result<Understood, Problem>) {
        let mut told = Told { route: Route::unknown(&came.parts.method), audited: None };
        let understood = self.parse(&came, body, &mut told).await;
        (told, understood)
    }

    async fn parse(&self, came: &Came, body: Incoming, told: &mut Told) -> Result<Understood, Problem> {
        let Came { parts, peer, client, id } = came;
        let from = From { peer, client: *client };
        let said = request::check_head(parts)?;
        self.site.check(&parts.method, &parts.uri, &said)?;
        if self.site.is_preflight(&parts.method, &parts.headers) {
            let is_private_network = site::asks_for_private_network(&parts.headers);
            return Ok(Understood { asked: Asked::Preflight { is_private_network }, audit: None });
        }
        let (endpoint, params) = self.router.route(&parts.method, &parts.uri)?;
        (told.route.dialect, told.route.pattern) = (endpoint.handler.dialect(), Some(endpoint.pattern));
        if peer.is_reserved && !endpoint.handler.is_about_the_service() {
            return Err(Problem::unavailable("too many connections", 1).coded(Code::Overloaded).and_close());
        }
        if matches!(endpoint.handler, Action::SignOn(sign_on::Action::Login | sign_on::Action::Callback)) {
            self.guard.count_step(*client, self.driver.now())?;
        }
        // The caller is identified from the headers, before the body is read.
        let counted = &self.observer.metrics.sign_ins;
        let caller =
            self.guard.admit(endpoint.handler, parts, from, &self.settings, || self.driver.now(), counted).await?;
        let body = &request::read_body(&parts.headers, body, self.settings.http.body_timeout).await?;
        let call = Call { settings: &self.settings, parts, params, body };
        let mut asked = match endpoint.handler {
            Action::Pools(action) => Asked::Pools(pools::parse(action, &call)?),
            Action::Claims(action) => Asked::Claims(claims::parse(action, &call)?),
            Action::Lock(action) => Asked::Lock(lock::parse(action, &call)?),
            Action::Observe(action) => Asked::Observe(watch::parse(action, &call, &self.observer)?),
            Action::Dashboard(action) => Asked::Page(dashboard::parse(action, &call)?),
            Action::Docs(action) => Asked::Page(docs::parse(action, &call, &self.document)?),
            Action::SignOn(action) => Asked::SignOn(sign_on::parse(action, &call, &self.guard)?),
            Action::Health => Asked::Health,
            Action::Readiness => Asked::Readiness,
            Action::Metrics => Asked::Metrics { as_openmetrics: metrics::accepts_openmetrics(&parts.headers) },
        };
        if let Asked::Observe(watch::Asked::Events(subscription)) = &mut asked {
            subscription.by(*client);
        }
        if let Some(log) = &self.audit {
            let identity = caller.as_ref().map_or(Identity::ANONYMOUS, |caller| caller.identity.clone());
            let by = (&self.driver, self.observer.digester());
            told.audited = Audited::begin(log, &asked, identity, *client, id, by)?;
        }
        let audit = match caller {
            None => None,
            Some(caller) => {
                let audit = auth::authorize(&mut asked, caller, &self.driver, id, counted).await?;
                if let Asked::Observe(watch::Asked::Events(subscription)) = &mut asked {
                    let is_encrypted = self.settings.is_encrypted();
                    let standing = Standing::new(&self.guard, &self.driver, &parts.headers, from, is_encrypted);
                    subscription.as_long_as(standing);
                }
                audit
            }
        };
        Ok(Understood { asked, audit })
    }

    /// Each future is on the heap, as large as it is: an `async fn` would be as large as the largest, hold the request
    /// twice, and be copied and kept for every parked caller. 600 bytes each.
    fn answer<'a>(&'a self, asked: Asked, id: &'a RequestId) -> Answering<'a> {
        match asked {
            Asked::Pools(asked) => Box::pin(pools::answer(&self.driver, asked, id)),
            Asked::Claims(asked) => Box::pin(claims::answer(&self.driver, asked, id)),
            Asked::Lock(asked) => Box::pin(lock::answer(&self.driver, asked, id)),
            Asked::Observe(asked) => Box::pin(watch::answer(&self.observer, &self.driver, asked, id)),
            Asked::Page(wanted) => Box::pin(ready(Ok(wanted.answer(id)))),
            Asked::SignOn(asked) => Box::pin(sign_on::answer(asked, &self.guard, id, self.driver.now())),
            Asked::Health => Box::pin(ready(Ok(response::json(StatusCode::OK, id, r#"{"status":"ok"}"#)))),
            Asked::Readiness => Box::pin(self.readiness(id)),
            Asked::Preflight { is_private_network } => Box::pin(ready(Ok(site::preflight(id, is_private_network)))),
            Asked::Metrics { as_openmetrics } => Box::pin(ready(Ok(self.exposition(as_openmetrics, id)))),
        }
    }

    async fn readiness(&self, id: &RequestId) -> Result<Response<Body>, Problem> {
        if self.is_ready().await {
            Ok(response::json(StatusCode::OK, id, r#"{"status":"ready"}"#))
        } else {
            let reason = "not ready: the store does not confirm writes, or we are shutting down";
            Err(Problem::unavailable(reason, 1))
        }
    }

    /// However often it is asked, it writes to the store once a second. While the write takes its time, all callers
    /// wait for the same answer.
    async fn is_ready(&self) -> bool {
        let mut looked = self.readiness.lock().await;
        let (now_us, is_ending) = (self.driver.now().mono_us, self.observer.events.is_closed());
        if let Some((at_us, is_ready)) = *looked
            && now_us.saturating_sub(at_us) < READY_EVERY_US
        {
            return is_ready && !is_ending;
        }
        let is_ready = self.driver.is_ready().await;
        *looked = Some((self.driver.now().mono_us, is_ready));
        is_ready
    }

    fn exposition(&self, as_openmetrics: bool, id: &RequestId) -> Response<Body> {
        self.observer.count_events();
        let text = self.observer.metrics.expose(self.driver.readings());
        if as_openmetrics {
            response::text(StatusCode::OK, id, metrics::OPENMETRICS_TYPE, text)
        } else {
            response::text(StatusCode::OK, id, metrics::CLASSIC_TYPE, metrics::classic(&text))
        }
    }
}

/// Returns whether the caller calls us `localhost`: every machine has that name, and other programs there may speak
/// plain HTTP.
fn is_this_machine(parts: &Parts) -> bool {
    let named = parts.uri.host().or_else(|| parts.headers.get(HOST).and_then(|host| host.to_str().ok()));
    named.is_none_or(|host| host.split(':').next().is_some_and(|name| name.eq_ignore_ascii_case("localhost")))
}

type Answering<'a> = Pin<Box<dyn Future<Output = Result<Response<Body>, Problem>> + Send + 'a>>;

impl Handler for App {
    fn connection(&self, news: ConnectionNews) {
        let counted = &self.observer.metrics.connections;
        match news {
            ConnectionNews::Opened => {
                counted.accepted.inc();
                counted.open.inc();
            }
            ConnectionNews::Closed => drop(counted.open.dec()),
            ConnectionNews::Refused => drop(counted.refused.inc()),
            ConnectionNews::NoHandshake => drop(counted.no_handshake.inc()),
        }
    }

    fn handle(
        self: Arc<Self>,
        request: Request<Incoming>,
        peer: Peer,
    ) -> impl Future<Output = Response<Body>> + Send + 'static {
        let came_at = Instant::now();
        let (parts, body) = request.into_parts();
        let id = RequestId::of(&parts.headers);
        let span = RequestSpan::new(&parts.headers, &id);
        let foreign_origin = self.site.foreign_origin(&parts.headers);
        // On the heap, and gone before a caller is parked: the parts of a request would otherwise have their place in
        // every waiter's memory.
        let client = client_of(peer.addr.ip(), &parts.headers, &self.settings.trusted_proxies);
        let is_https_only = self.settings.speaks_tls && !is_this_machine(&parts);
        let came = Came { parts, peer, client, id: id.clone() };
        let understood = Box::pin(Arc::clone(&self).understand(came, body));
        let told = span.clone();
        span.around(async move {
            // In a scope of its own, so that the call is not kept beside its answer.
            let (Told { route, audited }, audit, answering) = {
                let (told, understood) = understood.await;
                match understood {
                    Ok(Understood { asked, audit }) => (told, audit, self.answer(asked, &id)),
                    Err(problem) => (told, None, Box::pin(ready(Err(problem))) as Answering<'_>),
                }
            };
            let outcome = answering.await;
            let mut response = request::respond(&id, outcome);
            ensure_position(&mut response, &self.driver);
            response::fill_in(response.headers_mut(), SERVICE, self.service.clone());
            if is_https_only {
                response.headers_mut().insert(STRICT_TRANSPORT_SECURITY, HTTPS_ONLY);
            }
            self.site.mark(&mut response, foreign_origin);
            if let Some(audit) = audit {
                audit.answered(response.status().as_u16());
            }
            if let Some(audited) = audited {
                let position = response.headers().get(POSITION).and_then(|position| position.to_str().ok());
                audited.answered(response.status().as_u16(), position);
            }
            let (status, took) = (response.status(), came_at.elapsed());
            self.observer.metrics.request(route.dialect, status.as_u16(), took);
            route.log(&id, client, status, took, self.settings.access_log);
            told.answered(route.method(), route.pattern(), status);
            response
        })
    }
}
