//! The list of faces, and everything that is the same for each of them: one enum of their endpoints, one of their
//! calls, the labels they are counted under. The enums are matched on, not called through a table, so that a request
//! costs no more than with one face.

use super::class::{Audience, Class};
use super::face::{Answering, Face, Received, Service};
use crate::auth::{Admission, AskedChange, Caller, From, Guarded, Need};
use crate::http::router;
use crate::http::{Problem, RequestId, boxed_pin};
use crate::metrics::FaceLabels;
use crate::openapi::{NamedSchema, Operation};
use crate::settings::Settings;

/// The list: the folder of each face and its type, which is also the name of its variants here. A face is one line,
/// also for the modules of `faces`.
macro_rules! faces {
    ($made_from_it:ident) => {
        $made_from_it! {
            pools: Pools,
            proofs: Proofs,
            claims: Claims,
            lock: Lock,
            terraform: Terraform,
            fleetlock: FleetLock,
            watch: Watch,
            dashboard: Dashboard,
            docs: Docs,
            sign_on: SignOnFace,
            cluster: Cluster,
            health: Health,
        }
    };
}

macro_rules! tables {
    ($($folder:ident: $face:ident),+ $(,)?) => {
        $(use super::$folder::$face;)+

        /// The faces in the order of the list, as indices of tables.
        #[derive(Clone, Copy)]
        enum Index {
            $($face),+
        }

        /// The labels that requests to each face are counted under, in the order of the list.
        pub(crate) const LABELS: &[FaceLabels] = &[$(<$face as Face>::LABELS),+];

        /// Every endpoint of every face.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Endpoint {
            $($face(<$face as Face>::Endpoint)),+
        }

        /// A request to any of them that made sense, freed from the bytes it came in.
        #[derive(Debug)]
        pub(crate) enum Call {
            $($face(<$face as Face>::Call)),+
        }

        fn all_endpoints() -> Vec<router::Endpoint<Endpoint>> {
            let mut all = Vec::new();
            $(all.extend(<$face>::endpoints().into_iter().map(|(method, pattern, endpoint)| {
                router::Endpoint::new(method, pattern, Endpoint::$face(endpoint)).hinting(<$face>::hint(endpoint))
            }));)+
            all
        }

        /// The schemas of all faces.
        pub(crate) fn schemas(settings: &Settings) -> Vec<NamedSchema> {
            let mut all = Vec::new();
            $(all.extend(<$face>::schemas(settings));)+
            all
        }

        impl Endpoint {
            pub(crate) fn class(self) -> Class {
                match self {
                    $(Endpoint::$face(endpoint) => <$face>::class(endpoint)),+
                }
            }

            /// The place of its face in the list.
            pub(crate) fn face(self) -> usize {
                match self {
                    $(Endpoint::$face(_) => Index::$face as usize),+
                }
            }

            pub(crate) fn is_about_the_service(self) -> bool {
                match self {
                    $(Endpoint::$face(_) => <$face>::IS_ABOUT_THE_SERVICE),+
                }
            }

            pub(crate) fn admission(self) -> Admission {
                match self {
                    $(Endpoint::$face(endpoint) => <$face>::admission(endpoint)),+
                }
            }

            pub(crate) fn approach(self, from: From<'_>, service: &Service) -> Result<(), Problem> {
                match self {
                    $(Endpoint::$face(endpoint) => <$face>::approach(endpoint, from, service)),+
                }
            }

            #[inline]
            pub(crate) fn parse(self, received: &Received<'_>, service: &Service) -> Result<Call, Problem> {
                match self {
                    $(Endpoint::$face(endpoint) => <$face>::parse(endpoint, received, service).map(Call::$face)),+
                }
            }

            pub(crate) fn operation(self, settings: &Settings) -> Operation {
                match self {
                    $(Endpoint::$face(endpoint) => <$face>::operation(endpoint, settings)),+
                }
            }
        }

        impl Call {
            pub(crate) fn change(&self) -> Option<AskedChange<'_>> {
                match self {
                    $(Call::$face(call) => <$face>::change(call)),+
                }
            }

            #[inline]
            pub(crate) fn answer<'a>(self, service: &'a Service, id: &'a RequestId) -> Answering<'a> {
                match self {
                    $(Call::$face(call) => boxed_pin(|| <$face>::answer(service, call, id))),+
                }
            }
        }

        impl Guarded for Call {
            #[inline]
            fn need(&self) -> Need<'_> {
                match self {
                    $(Call::$face(call) => <$face>::need(call)),+
                }
            }

            #[inline]
            fn sign(&mut self, caller: Caller) -> Result<(), Problem> {
                match self {
                    $(Call::$face(call) => <$face>::sign(call, caller)),+
                }
            }
        }
    };
}

faces!(tables);

/// The table of one listener.
pub(crate) fn endpoints(audience: Audience) -> Vec<router::Endpoint<Endpoint>> {
    let mut endpoints = all_endpoints();
    endpoints.retain(|endpoint| audience.is_served(endpoint.handler.class()));
    endpoints
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    #[test]
    fn two_listeners_share_what_is_for_both_and_nothing_else() {
        let table = |audience| {
            endpoints(audience).into_iter().map(|it| (it.method, it.pattern, it.handler)).collect::<Vec<_>>()
        };
        let (whole, callers, operators) =
            (table(Audience::Whole), table(Audience::Callers), table(Audience::Operators));
        for endpoint in &whole {
            let is_shared = matches!(endpoint.2.class(), Class::Health | Class::SignOn | Class::Docs | Class::Tend);
            let served = [&callers, &operators].into_iter().filter(|table| table.contains(endpoint)).count();
            assert_eq!(served, if is_shared { 2 } else { 1 }, "{endpoint:?}");
        }
        let serves = |table: &[(Method, &str, Endpoint)], method, path| {
            table.iter().any(|(known, pattern, _)| *known == method && *pattern == path)
        };
        assert!(serves(&operators, Method::GET, "/metrics") && !serves(&callers, Method::GET, "/metrics"));
        assert!(serves(&callers, Method::POST, "/lock") && !serves(&operators, Method::POST, "/lock"));
        assert!(serves(&callers, Method::DELETE, "/lock") && serves(&operators, Method::DELETE, "/lock"));
        assert!(serves(&callers, Method::GET, "/docs") && serves(&operators, Method::GET, "/healthz"));
    }
}
