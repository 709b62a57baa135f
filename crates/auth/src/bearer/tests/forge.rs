//! A provider's keys, made for one test, and their use by an honest or dishonest signer.

use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _,
    RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RSA_PSS_SHA256, RSA_PSS_SHA384, RSA_PSS_SHA512, RsaEncoding,
};
use serde_json::json;

use super::*;

/// One key pair, and the algorithm it signs with.
pub(crate) struct Signer {
    algorithm: &'static str,
    kid: String,
    pair: Pair,
}

enum Pair {
    Rsa(RsaKeyPair, &'static dyn RsaEncoding),
    Ec(EcdsaKeyPair, &'static str, usize),
    Ed(Ed25519KeyPair),
}

impl Signer {
    pub(crate) fn new(algorithm: &'static str, kid: &str) -> Self {
        let rsa =
            |encoding: &'static dyn RsaEncoding| Pair::Rsa(RsaKeyPair::generate(KeySize::Rsa2048).unwrap(), encoding);
        let pair = match algorithm {
            "RS256" => rsa(&RSA_PKCS1_SHA256),
            "RS384" => rsa(&RSA_PKCS1_SHA384),
            "RS512" => rsa(&RSA_PKCS1_SHA512),
            "PS256" => rsa(&RSA_PSS_SHA256),
            "PS384" => rsa(&RSA_PSS_SHA384),
            "PS512" => rsa(&RSA_PSS_SHA512),
            "ES256" => Pair::Ec(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap(), "P-256", 32),
            "ES384" => Pair::Ec(EcdsaKeyPair::generate(&ECDSA_P384_SHA384_FIXED_SIGNING).unwrap(), "P-384", 48),
            "EdDSA" => Pair::Ed(Ed25519KeyPair::generate().unwrap()),
            other => panic!("no algorithm is called {other}"),
        };
        Signer { algorithm, kid: kid.to_owned(), pair }
    }

    /// The public key as the provider publishes it.
    pub(crate) fn jwk(&self) -> Value {
        let mut jwk = match &self.pair {
            Pair::Rsa(pair, _) => {
                let public = pair.public_key();
                let part = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
                json!({
                    "kty": "RSA",
                    "n": part(public.modulus().big_endian_without_leading_zero()),
                    "e": part(public.exponent().big_endian_without_leading_zero()),
                })
            }
            Pair::Ec(pair, curve, len) => {
                let (x, y) = pair.public_key().as_ref()[1..].split_at(*len);
                json!({"kty": "EC", "crv": curve, "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y)})
            }
            Pair::Ed(pair) => {
                json!({"kty": "OKP", "crv": "Ed25519", "x": URL_SAFE_NO_PAD.encode(pair.public_key().as_ref())})
            }
        };
        jwk["kid"] = json!(self.kid);
        jwk["use"] = json!("sig");
        jwk["alg"] = json!(self.algorithm);
        jwk
    }

    pub(crate) fn published(&self) -> Vec<VerifyingKey> {
        keys_of(&jwks(&[self])).unwrap()
    }

    pub(crate) fn sign(&self, claims: &Claims) -> String {
        self.sign_with(&[], claims)
    }

    /// With other members in the header.
    pub(crate) fn sign_with(&self, headers: &[(&str, Value)], claims: &Claims) -> String {
        self.sign_text(headers, &claims.text())
    }

    pub(super) fn sign_raw(&self, claims: &str) -> String {
        self.sign_text(&[], claims)
    }

    fn sign_text(&self, headers: &[(&str, Value)], claims: &str) -> String {
        let mut header = json!({"alg": self.algorithm, "typ": "JWT", "kid": self.kid});
        for (name, value) in headers {
            header[*name] = value.clone();
        }
        let message = format!("{}.{}", encode(&header), encode_raw(claims));
        let random = SystemRandom::new();
        let signature = match &self.pair {
            Pair::Rsa(pair, encoding) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(*encoding, &random, message.as_bytes(), &mut signature).unwrap();
                signature
            }
            Pair::Ec(pair, ..) => pair.sign(&random, message.as_bytes()).unwrap().as_ref().to_vec(),
            Pair::Ed(pair) => pair.sign(message.as_bytes()).as_ref().to_vec(),
        };
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    /// The old trick: the public key, which is no secret, used as the secret of HS256.
    pub(super) fn as_shared_secret(&self, claims: &Claims) -> String {
        let Pair::Rsa(pair, _) = &self.pair else { panic!("an RSA key") };
        let header = json!({"alg": "HS256", "kid": self.kid});
        let message = format!("{}.{}", encode(&header), encode_raw(&claims.text()));
        let secret = hmac::Key::new(hmac::HMAC_SHA256, pair.public_key().as_ref());
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(hmac::sign(&secret, message.as_bytes())))
    }
}

/// A JWKS document.
pub(crate) fn jwks(signers: &[&Signer]) -> Vec<u8> {
    json!({"keys": signers.iter().map(|signer| signer.jwk()).collect::<Vec<_>>()}).to_string().into_bytes()
}

/// The claims of a token.
pub(crate) struct Claims(Map<String, Value>);

impl Claims {
    pub(crate) fn good() -> Self {
        let claims = json!({
            "iss": ISSUER, "sub": "alice", "aud": "leasehold", "exp": NOW.unix_s + 300, "iat": NOW.unix_s,
            "nbf": NOW.unix_s, "groups": ["staff"],
        });
        let Value::Object(claims) = claims else { unreachable!() };
        Claims(claims)
    }

    pub(crate) fn with(mut self, name: &str, value: &Value) -> Self {
        self.0.insert(name.to_owned(), value.clone());
        self
    }

    pub(super) fn without(mut self, name: &str) -> Self {
        self.0.remove(name);
        self
    }

    pub(super) fn text(&self) -> String {
        Value::Object(self.0.clone()).to_string()
    }

    /// The same, with one member named again.
    pub(super) fn twice(&self, name: &str, value: &Value) -> String {
        format!("{},{}:{value}}}", self.text().trim_end_matches('}'), json!(name))
    }
}

pub(super) fn encode(value: &Value) -> String {
    encode_raw(&value.to_string())
}

pub(super) fn encode_raw(text: &str) -> String {
    URL_SAFE_NO_PAD.encode(text)
}

/// The token with one bit of its signature turned.
pub(super) fn flip_bit(token: &str) -> String {
    let (message, signature) = token.rsplit_once('.').unwrap();
    let mut bytes = URL_SAFE_NO_PAD.decode(signature).unwrap();
    bytes[10] ^= 1;
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(bytes))
}
