//! Keys of a provider, from its JWKS. A key is for the algorithms of its type and for no others.

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde_json::Value;

use leasehold_json as json;

/// Keys kept of one provider. Providers have a handful; a thousand would be another document.
const KEYS_MAX: usize = 64;

/// RSA keys below 2048 bits can be broken, above 8192 they are a way to keep us busy. In bytes of the modulus.
const RSA_BYTES: std::ops::RangeInclusive<usize> = 256..=1024;

const RSA: &[Algorithm] =
    &[Algorithm::RS256, Algorithm::RS384, Algorithm::RS512, Algorithm::PS256, Algorithm::PS384, Algorithm::PS512];

/// A key that signatures can be checked with.
#[derive(Clone, Debug)]
pub struct VerifyingKey {
    kid: Option<String>,
    algorithms: &'static [Algorithm],
    /// The one algorithm the provider says this key is for.
    only: Option<Algorithm>,
    decoding: DecodingKey,
}

impl VerifyingKey {
    pub fn kid(&self) -> Option<&str> {
        self.kid.as_deref()
    }

    pub(super) fn allows(&self, algorithm: Algorithm) -> bool {
        self.algorithms.contains(&algorithm) && self.only.is_none_or(|only| only == algorithm)
    }

    pub(super) fn decoding(&self) -> &DecodingKey {
        &self.decoding
    }

    /// `None` for keys that are not for checking signatures, or not in a way we know.
    fn from_jwk(jwk: &Jwk) -> Option<Self> {
        let common = &jwk.common;
        let is_for_signatures = common.public_key_use.as_ref().is_none_or(|used| *used == PublicKeyUse::Signature);
        let may_verify = common.key_operations.as_ref().is_none_or(|ops| ops.contains(&KeyOperations::Verify));
        if !is_for_signatures || !may_verify {
            return None;
        }
        let algorithms = match &jwk.algorithm {
            AlgorithmParameters::RSA(rsa) => RSA_BYTES.contains(&modulus_len(&rsa.n)?).then_some(RSA)?,
            AlgorithmParameters::EllipticCurve(ec) => match ec.curve {
                EllipticCurve::P256 => &[Algorithm::ES256],
                EllipticCurve::P384 => &[Algorithm::ES384],
                _ => return None,
            },
            AlgorithmParameters::OctetKeyPair(pair) => match pair.curve {
                EllipticCurve::Ed25519 => &[Algorithm::EdDSA],
                _ => return None,
            },
            // A shared secret among public keys would be known to all.
            _ => return None,
        };
        let only = match &common.key_algorithm {
            None => None,
            Some(named) => Some(named.to_string().parse::<Algorithm>().ok().filter(|only| algorithms.contains(only))?),
        };
        let decoding = DecodingKey::from_jwk(jwk).ok()?;
        Some(VerifyingKey { kid: common.key_id.clone(), algorithms, only, decoding })
    }
}

fn modulus_len(n: &str) -> Option<usize> {
    use base64::Engine as _;
    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(n).ok()?;
    Some(bytes.iter().skip_while(|&&byte| byte == 0).count())
}

/// The usable keys of a JWKS document; `None` if it is none. Keys we cannot use are passed over: providers publish them
/// for others.
pub fn keys_of(document: &[u8]) -> Option<Vec<VerifyingKey>> {
    let document = json::parse(document).ok()?;
    let Some(Value::Array(keys)) = document.get("keys") else { return None };
    let usable = keys.iter().filter_map(|key| {
        let jwk: Jwk = serde_json::from_value(key.clone()).ok()?;
        VerifyingKey::from_jwk(&jwk)
    });
    Some(usable.take(KEYS_MAX).collect())
}
