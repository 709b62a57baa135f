//! The endpoints of the cluster.

use http::Method;

use crate::faces::Rows;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Show,
}

pub(super) fn endpoints() -> Rows<Endpoint> {
    vec![(Method::GET, "/v1/cluster", Endpoint::Show)]
}

#[derive(Debug)]
pub(crate) enum Call {
    Show,
}
