//! The endpoints of the keys of proofs.

use http::Method;

use crate::faces::Rows;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Keys,
    Rotate,
}

pub(super) fn endpoints() -> Rows<Endpoint> {
    vec![
        (Method::GET, "/.well-known/leasehold/jwks.json", Endpoint::Keys),
        (Method::POST, "/v1/admin/proof-key", Endpoint::Rotate),
    ]
}

#[derive(Debug)]
pub(crate) enum Call {
    Keys,
    Rotate,
}
