//! The service as hyper sees it: routes a request, lets its dialect make a command of it, waits for the durable answer,
//! lets the dialect word it.

use std::future::ready;
use std::net::IpAddr;
use std::sync::Arc;

use http::header::{HOST, STRICT_TRANSPORT_SECURITY};
use http::request::Parts;
use http::{HeaderValue, Request, Response, StatusCode};
use hyper::body::Incoming;
use leasehold_auth::Identity;

use crate::access::{Origin, Route};
use crate::audit_log::AuditLog;
use crate::auth::{self, Audit, Audited, From, Guard};
use crate::document;
use crate::driver::Handle;
use crate::faces::{
    Answering, Audience, Call, Endpoint, LABELS, Queueing, Readiness, Received, Service, complete, endpoints, person,
};
use crate::http::router::Router;
use crate::http::{
    Body, BodyRoom, ConnectionNews, Handler, Peer, Problem, RequestId, Site, boxed, boxed_pin, client_of, request,
    site, turn,
};
use crate::metrics::Requests;
use crate::proofs::ProofKeys;
use crate::response::POSITION;
use crate::settings::Settings;
use crate::trace::RequestSpan;
use crate::watch::Observer;

/// For a year browsers speak https alone to a name that was reached so.
const HTTPS_ONLY: HeaderValue = HeaderValue::from_static("max-age=31536000");

#[derive(Debug)]
pub struct App {
    service: Service,
    router: Router<Endpoint>,
    site: Site,
    requests: Requests,
    audit: Option<Arc<AuditLog>>,
    /// Which service this is, on every answer: a client with several URLs can tell that they lead to one.
    name: HeaderValue,
    /// All its callers are operators.
    is_for_operators: bool,
}

/// The subject of a request.
#[derive(Debug)]
enum Handling {
    Call(Call),
    /// A person with a browser is not let in.
    Person(Box<Problem>),
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
    asked: Handling,
    /// To be said when it is over.
    audit: Option<Box<Audit>>,
}

impl App {
    /// Serves everything there is.
    pub fn new(settings: Settings, driver: Handle, observer: Arc<Observer>) -> Self {
        App::facing(Audience::Whole, settings, driver, observer)
    }

    /// Serves the endpoints of one listener.
    pub fn facing(audience: Audience, settings: Settings, driver: Handle, observer: Arc<Observer>) -> Self {
        observer.metrics.limits(settings.waiters_max, settings.http.connections_max);
        let requests = observer.metrics.requests(LABELS);
        let router = Router::new(endpoints(audience)).expect("the table of endpoints has no mistake");
        let document = format!("{}\n", document::document(audience, &settings)).into();
        let name = observer.digester().service().try_into().expect("hex digits make a header value");
        let Settings { is_loopback, public_url, allowed_hosts, allow_origin, .. } = &settings;
        let site = Site::new(*is_loopback, public_url.as_deref(), allowed_hosts, allow_origin);
        let (guard, readiness, queueing) = (Arc::default(), Readiness::default(), Queueing::default());
        let proof_keys = Arc::new(ProofKeys::drawn());
        let service = Service { settings, driver, observer, guard, proof_keys, document, readiness, queueing };
        let is_for_operators = audience == Audience::Operators;
        App { service, router, site, requests, audit: None, name, is_for_operators }
    }

    /// The same, for callers that sign on.
    #[must_use]
    pub fn guarded(mut self, guard: Arc<Guard>) -> Self {
        self.service.guard = guard;
        self
    }

    /// The same, with keys of proofs that outlive the process. Without, they are drawn.
    #[must_use]
    pub fn proving(mut self, keys: Arc<ProofKeys>) -> Self {
        self.service.proof_keys = keys;
        self
    }

    /// The same, with a line in the audit log for every change.
    #[must_use]
    pub fn audited(self, audit: Option<Arc<AuditLog>>) -> Self {
        App { audit, ..self }
    }

    /// From bytes to a call that makes sense and is allowed.
    async fn understand(self: Arc<Self>, came: Box<Came>, body: Incoming) -> (Told, Result<Understood, Problem>) {
        let mut told = Told { route: Route::unknown(&came.parts.method), audited: None };
        let understood = match self.parse(&came, body, &mut told).await {
            Err(problem) if self.is_for_a_person(&problem, &came.parts) => {
                Ok(Understood { asked: Handling::Person(Box::new(problem)), audit: None })
            }
            understood => understood,
        };
        (told, understood)
    }

    /// Returns whether a refusal is shown as a page: a person is to sign on, or lacks a right. Where the provider is
    /// the only way to sign on, the browser is sent there at once.
    fn is_for_a_person(&self, problem: &Problem, parts: &Parts) -> bool {
        problem.is_about_sign_on()
            && person::looks(parts)
            && (problem.status != StatusCode::SEE_OTHER
                || self.service.guard.current().is_some_and(|sign_on| sign_on.has_token_login()))
    }

    async fn parse(&self, came: &Came, body: Incoming, told: &mut Told) -> Result<Understood, Problem> {
        let Came { parts, peer, client, id } = came;
        let from = From { peer, client: *client };
        let said = request::check_head(parts)?;
        self.site.check(&parts.method, &parts.uri, &said)?;
        let form = said.form;
        if self.site.is_preflight(&parts.method, &parts.headers) {
            let is_private_network = site::asks_for_private_network(&parts.headers);
            return Ok(Understood { asked: Handling::Preflight { is_private_network }, audit: None });
        }
        let (endpoint, params) = self.router.route(&parts.method, &parts.uri)?;
        let (service, endpoint, pattern) = (&self.service, endpoint.handler, endpoint.pattern);
        (told.route.face, told.route.pattern) = (Some(endpoint.face()), Some(pattern));
        if peer.is_reserved && !endpoint.is_about_the_service() {
            return Err(Problem::too_many_connections());
        }
        endpoint.approach(from, service)?;
        // The caller is identified from the headers, before the body is read.
        let Service { settings, driver, observer, guard, .. } = service;
        let counted = &observer.metrics.sign_ins;
        let caller = guard.admit(endpoint.admission(), parts, from, settings, || driver.now(), counted).await?;
        if settings.access_log {
            told.route.caller = caller.as_ref().and_then(|caller| caller.identity.name().cloned());
        }
        let unended = if self.is_for_operators { &settings.http.unended_reserved } else { &settings.http.unended };
        let room = BodyRoom { unsent: unended, ip: *client };
        let body = &request::read_body(form, body, settings.http.body_timeout, room).await?;
        let mut call = endpoint.parse(&Received { settings, parts, params, body, from }, service)?;
        if let Some(log) = &self.audit {
            let identity = caller.as_ref().map_or(Identity::ANONYMOUS, |caller| caller.identity.clone());
            let by = (driver, observer.digester());
            told.audited = boxed_pin(|| Audited::begin(log, call.change(), identity, *client, id, by)).await?;
        }
        let audit = match caller {
            None => None,
            Some(caller) => boxed_pin(|| auth::authorize(&mut call, caller, driver, id, counted)).await?,
        };
        Ok(Understood { asked: Handling::Call(call), audit })
    }

    fn answer<'a>(&'a self, asked: Handling, id: &'a RequestId) -> Answering<'a> {
        match asked {
            Handling::Call(call) => call.answer(&self.service, id),
            Handling::Person(problem) => Box::pin(ready(Ok(person::page(&problem, id)))),
            Handling::Preflight { is_private_network } => Box::pin(ready(Ok(site::preflight(id, is_private_network)))),
        }
    }
}

/// Returns whether the caller calls us `localhost`: every machine has that name, and other programs there may speak
/// plain HTTP.
fn is_this_machine(parts: &Parts) -> bool {
    let named = parts.uri.host().or_else(|| parts.headers.get(HOST).and_then(|host| host.to_str().ok()));
    named.is_none_or(|host| host.split(':').next().is_some_and(|name| name.eq_ignore_ascii_case("localhost")))
}

impl Handler for App {
    fn reserved_paths(&self) -> Vec<&'static str> {
        let endpoints = self.router.endpoints().iter();
        endpoints.filter(|endpoint| endpoint.handler.is_about_the_service()).map(|endpoint| endpoint.pattern).collect()
    }

    fn is_for_operators(&self) -> bool {
        self.is_for_operators
    }

    fn connection(&self, news: ConnectionNews) {
        let counted = &self.service.observer.metrics.connections;
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
        let came_at = turn::now();
        let (parts, body) = request.into_parts();
        let id = RequestId::of(&parts.headers);
        let span = RequestSpan::new(&parts.headers, &id);
        let foreign_origin = self.site.foreign_origin(&parts.headers);
        // On the heap, and gone before a caller is parked: the parts of a request would otherwise have their place in
        // every waiter's memory.
        let peer_addr = peer.addr;
        let client = client_of(peer.addr.ip(), &parts.headers, &self.service.settings.trusted_proxies);
        let is_https_only = self.service.settings.speaks_tls && !is_this_machine(&parts);
        let came = boxed(|| Came { parts, peer, client, id: id.clone() });
        let understood = boxed_pin(|| Arc::clone(&self).understand(came, body));
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
            // A page that reached us by a name of its own choosing learns nothing, not even which service this is.
            if response.status() != StatusCode::MISDIRECTED_REQUEST {
                complete(&mut response, &self.service.driver, self.name.clone());
            }
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
            let (status, took) = (response.status(), turn::read().saturating_duration_since(came_at));
            self.requests.answered(route.face, status.as_u16(), took);
            let origin = Origin { peer: peer_addr, client };
            route.log(&id, origin, status, took, self.service.settings.access_log);
            told.answered(route.method(), route.pattern(), status);
            response
        })
    }
}
