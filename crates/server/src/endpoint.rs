//! Every endpoint, its purpose, and its callers. The class of an endpoint says which listener serves it (`Face`); `app`
//! does the work.

use http::Method;

use crate::faces::{claims, dashboard, docs, lock, pools, sign_on, watch};
use crate::http::router::Endpoint;
use crate::metrics::Dialect;

/// All actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Pools(pools::Action),
    Claims(claims::Action),
    Lock(lock::Action),
    Observe(watch::Action),
    Dashboard(dashboard::Action),
    Docs(docs::Action),
    SignOn(sign_on::Action),
    /// The process lives.
    Health,
    /// It can commit.
    Readiness,
    Metrics,
}

/// The callers that an endpoint is meant for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Clients that borrow, claim and lock.
    Api,
    /// Those clients, and operators who look after claims: find one, give one back, take a waiter out of a queue.
    Tend,
    /// Observers: they see everything but secrets, and change nothing.
    Observe,
    /// Operators: they change the claims of others.
    Admin,
    /// Callers that sign on, to either of the two.
    SignOn,
    /// Probes of the process, so it is served everywhere and to all callers.
    Health,
    /// How to speak to this listener. It reveals nothing about any caller, so it is served everywhere and to all
    /// callers.
    Docs,
}

/// The endpoints of one listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Face {
    /// Everything: the only listener there is.
    Whole,
    /// The endpoints for callers, where observers have a listener of their own.
    Callers,
    /// That other listener.
    Operators,
}

impl Face {
    fn serves(self, class: Class) -> bool {
        match (self, class) {
            (Face::Whole, _) | (_, Class::Health | Class::SignOn | Class::Docs) => true,
            (Face::Callers, class) => matches!(class, Class::Api | Class::Tend),
            (Face::Operators, class) => matches!(class, Class::Observe | Class::Admin | Class::Tend),
        }
    }
}

impl Action {
    /// The one place that says which callers each endpoint is for.
    pub(crate) fn class(self) -> Class {
        match self {
            Action::Pools(_) => Class::Api,
            Action::Claims(action) => match action {
                claims::Action::List | claims::Action::Show | claims::Action::Update => Class::Tend,
                claims::Action::Create
                | claims::Action::ListResources
                | claims::Action::ShowResource
                | claims::Action::PutResource
                | claims::Action::DeleteResource => Class::Api,
            },
            Action::Lock(action) => match action {
                lock::Action::Release => Class::Tend,
                lock::Action::Acquire | lock::Action::Show => Class::Api,
            },
            Action::Observe(action) => match action {
                watch::Action::Fence => Class::Api,
                watch::Action::Revoke => Class::Admin,
                watch::Action::ListResources
                | watch::Action::ShowResource
                | watch::Action::History
                | watch::Action::Series
                | watch::Action::FindPool
                | watch::Action::Events => Class::Observe,
            },
            Action::Dashboard(dashboard::Action::Page | dashboard::Action::Asset) | Action::Metrics => Class::Observe,
            Action::SignOn(_) => Class::SignOn,
            Action::Health | Action::Readiness => Class::Health,
            Action::Docs(_) => Class::Docs,
        }
    }

    /// Returns whether it is about the health of the service, and so is served also when there are too many callers.
    pub(crate) fn is_about_the_service(self) -> bool {
        matches!(self, Action::Health | Action::Readiness | Action::Metrics)
    }

    pub(crate) fn dialect(self) -> Dialect {
        match self {
            Action::Pools(_) => Dialect::Pools,
            Action::Claims(_) => Dialect::Claims,
            Action::Lock(_) => Dialect::Lock,
            Action::Observe(_)
            | Action::Dashboard(_)
            | Action::Docs(_)
            | Action::SignOn(_)
            | Action::Health
            | Action::Readiness
            | Action::Metrics => Dialect::Other,
        }
    }
}

/// The table of one listener.
pub(crate) fn endpoints(face: Face) -> Vec<Endpoint<Action>> {
    let mut endpoints = pools::routes::endpoints(Action::Pools);
    endpoints.extend(claims::routes::endpoints(Action::Claims));
    endpoints.extend(lock::routes::endpoints(Action::Lock));
    endpoints.extend(watch::endpoints(Action::Observe));
    endpoints.extend(dashboard::endpoints(Action::Dashboard));
    endpoints.extend(docs::endpoints(Action::Docs));
    endpoints.extend(sign_on::endpoints(Action::SignOn));
    endpoints.push(Endpoint::new(Method::GET, "/healthz", Action::Health));
    endpoints.push(Endpoint::new(Method::GET, "/readyz", Action::Readiness));
    endpoints.push(Endpoint::new(Method::GET, "/metrics", Action::Metrics));
    endpoints.retain(|endpoint| face.serves(endpoint.handler.class()));
    endpoints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_listeners_share_what_is_for_both_and_nothing_else() {
        let table =
            |face| endpoints(face).into_iter().map(|it| (it.method, it.pattern, it.handler)).collect::<Vec<_>>();
        let (whole, callers, operators) = (table(Face::Whole), table(Face::Callers), table(Face::Operators));
        for endpoint in &whole {
            let is_shared = matches!(endpoint.2.class(), Class::Health | Class::SignOn | Class::Docs | Class::Tend);
            let served = [&callers, &operators].into_iter().filter(|table| table.contains(endpoint)).count();
            assert_eq!(served, if is_shared { 2 } else { 1 }, "{endpoint:?}");
        }
        let serves = |table: &[(Method, &str, Action)], method, path| {
            table.iter().any(|(known, pattern, _)| *known == method && *pattern == path)
        };
        assert!(serves(&operators, Method::GET, "/metrics") && !serves(&callers, Method::GET, "/metrics"));
        assert!(serves(&callers, Method::POST, "/lock") && !serves(&operators, Method::POST, "/lock"));
        assert!(serves(&callers, Method::DELETE, "/lock") && serves(&operators, Method::DELETE, "/lock"));
        assert!(serves(&callers, Method::GET, "/docs") && serves(&operators, Method::GET, "/healthz"));
    }
}
