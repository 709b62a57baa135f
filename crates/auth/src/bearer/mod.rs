//! JWTs of an OpenID provider: taken apart strictly, checked by a key that was looked up (never one that came along),
//! and turned into a principal. `jwks` finds the keys.
//!
//! ```text
//! header.claims.signature ─ Unverified::parse ─▶ alg, kid ─▶ (a key of the provider) ─ verify ─▶ Verified
//! ```

pub(crate) mod cache;
mod claims;
mod error;
mod key;
#[cfg(test)]
pub(crate) mod tests;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::Algorithm;
use serde_json::{Map, Value};

pub(crate) use claims::seconds;
pub use claims::{ClaimPath, Expected, Verified};
pub use error::BearerError;
pub use key::{VerifyingKey, keys_of};

use crate::Now;
use crate::limits::{BEARER_TOKEN_MAX, KID_MAX};
use leasehold_json as json;

/// A token whose shape is right and whose claims count for nothing yet.
#[derive(Debug)]
pub struct Unverified<'a> {
    pub algorithm: Algorithm,
    pub kid: Option<String>,
    /// The signed part: header and claims as they came.
    message: &'a str,
    claims: &'a str,
    signature: &'a str,
}

/// Returns whether this has the shape of a JWT. Opaque tokens have no such shape.
pub fn looks_like_jwt(token: &str) -> bool {
    token.bytes().filter(|&byte| byte == b'.').count() == 2 && token.starts_with("ey")
}

impl<'a> Unverified<'a> {
    pub fn parse(token: &'a str) -> Result<Self, BearerError> {
        if token.len() > BEARER_TOKEN_MAX {
            return Err(BearerError::TooLong);
        }
        let (message, signature) = token.rsplit_once('.').ok_or(BearerError::NotThreeParts)?;
        let (header, claims) = message.split_once('.').ok_or(BearerError::NotThreeParts)?;
        if claims.contains('.') {
            return Err(BearerError::NotThreeParts);
        }
        let header = object("header", header)?;
        refuse_foreign_keys(&header)?;
        check_type(&header)?;
        Ok(Unverified { algorithm: algorithm(&header)?, kid: kid(&header)?, message, claims, signature })
    }

    /// Believes the token, if this key signed it and all its claims are as expected. Checks that cost next to nothing
    /// come first, so that a flood of tokens with wrong claims costs no signature check.
    pub fn verify(&self, key: &VerifyingKey, expected: &Expected, now: Now) -> Result<Verified, BearerError> {
        // The key determines its algorithms. If the token alone did, it could choose a weaker one.
        if !key.allows(self.algorithm) {
            return Err(BearerError::WrongAlgorithmForKey);
        }
        if self.signature.is_empty() || URL_SAFE_NO_PAD.decode(self.signature).is_err() {
            return Err(BearerError::NotBase64("signature"));
        }
        let verified = expected.check(&object("claims", self.claims)?, now)?;
        let is_signed =
            jsonwebtoken::crypto::verify(self.signature, self.message.as_bytes(), key.decoding(), self.algorithm);
        if !is_signed.unwrap_or(false) {
            return Err(BearerError::BadSignature);
        }
        Ok(verified)
    }
}

/// One part of a token as an object.
fn object(part: &'static str, text: &str) -> Result<Map<String, Value>, BearerError> {
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| BearerError::NotBase64(part))?;
    match json::parse(&bytes) {
        Ok(Value::Object(object)) => Ok(object),
        _ => Err(BearerError::NotJson(part)),
    }
}

/// A token that brings or points to its own key comes from a forger. `crit` asks for rules we do not know.
fn refuse_foreign_keys(header: &Map<String, Value>) -> Result<(), BearerError> {
    for name in ["jwk", "jku", "x5u", "x5c"] {
        if header.contains_key(name) {
            return Err(BearerError::BringsItsKey(name));
        }
    }
    if header.contains_key("crit") || header.contains_key("zip") || header.contains_key("enc") {
        return Err(BearerError::Critical);
    }
    Ok(())
}

/// Access tokens are `at+jwt` (RFC 9068) or plain `JWT`. Others, such as logout tokens, are signed with the same keys
/// and mean something else.
fn check_type(header: &Map<String, Value>) -> Result<(), BearerError> {
    match header.get("typ") {
        None => Ok(()),
        Some(Value::String(typ)) => {
            let typ = typ.to_ascii_lowercase();
            let typ = typ.strip_prefix("application/").unwrap_or(&typ);
            if matches!(typ, "jwt" | "at+jwt") { Ok(()) } else { Err(BearerError::WrongType) }
        }
        Some(_) => Err(BearerError::WrongType),
    }
}

/// The accepted algorithms. `none` and shared secrets (HS256 …) are not among them: a public key is no secret.
fn algorithm(header: &Map<String, Value>) -> Result<Algorithm, BearerError> {
    let Some(Value::String(name)) = header.get("alg") else { return Err(BearerError::NoAlgorithm) };
    Ok(match name.as_str() {
        "RS256" => Algorithm::RS256,
        "RS384" => Algorithm::RS384,
        "RS512" => Algorithm::RS512,
        "PS256" => Algorithm::PS256,
        "PS384" => Algorithm::PS384,
        "PS512" => Algorithm::PS512,
        "ES256" => Algorithm::ES256,
        "ES384" => Algorithm::ES384,
        "EdDSA" => Algorithm::EdDSA,
        _ => return Err(BearerError::UnknownAlgorithm),
    })
}

fn kid(header: &Map<String, Value>) -> Result<Option<String>, BearerError> {
    match header.get("kid") {
        None => Ok(None),
        Some(Value::String(kid)) if kid.len() <= KID_MAX => Ok(Some(kid.clone())),
        Some(_) => Err(BearerError::BadKid),
    }
}
