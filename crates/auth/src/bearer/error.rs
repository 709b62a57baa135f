//! Why a token is not believed. The caller is told each reason: it helps the honest and tells forgers only what they
//! know.

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BearerError {
    #[error("the token is longer than 12 KiB")]
    TooLong,
    #[error("the token does not have three parts")]
    NotThreeParts,
    #[error("the token's {0} is not base64url")]
    NotBase64(&'static str),
    #[error("the token's {0} is not a JSON object, or names a member twice")]
    NotJson(&'static str),
    #[error("the token's header names no algorithm")]
    NoAlgorithm,
    #[error("the token's algorithm is none of RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, EdDSA")]
    UnknownAlgorithm,
    #[error("the token's key is not for the token's algorithm")]
    WrongAlgorithmForKey,
    #[error("the token brings its own key ({0}), which is never trusted")]
    BringsItsKey(&'static str),
    #[error("the token is encrypted, compressed, or has critical headers")]
    Critical,
    #[error("the token's typ is neither JWT nor at+jwt")]
    WrongType,
    #[error("the token's kid is not a string of at most 512 bytes")]
    BadKid,
    #[error("the provider has no key with the token's kid")]
    UnknownKey,
    #[error("the token's signature is wrong")]
    BadSignature,
    #[error("the token has no {0}")]
    Missing(&'static str),
    #[error("the token's {0} has the wrong type")]
    WrongKind(&'static str),
    #[error("the token's iss is another issuer")]
    WrongIssuer,
    #[error("the token is not for this service: its aud is another")]
    WrongAudience,
    #[error("the token has expired")]
    Expired,
    #[error("the token is not valid yet")]
    NotYet,
    #[error("the token's nonce is another")]
    WrongNonce,
    #[error("the token's name for the principal is missing, too long or not printable")]
    BadName,
    #[error("the token's groups are not a list of at most 1000 short names")]
    BadGroups,
}
