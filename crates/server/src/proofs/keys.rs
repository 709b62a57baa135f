//! The keys of proofs. The newest one signs; public keys stay in the set for a day after another has taken their place,
//! so that proofs from before a rotation are checked to their end and guards have time to fetch the set. They are kept
//! on a shelf that belongs to the data, as one small record that is replaced whole. Private keys of the past are not
//! kept at all.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::{Jwk, ThumbprintHash};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits::{PROOF_KEY_RETIRED_S, PROOF_KEYS_MAX};

/// Attempts to replace a record that others replace, too.
const ATTEMPTS: usize = 5;

/// A set of a shared shelf is read again once it is older than this.
const FRESH_FOR: Duration = Duration::from_secs(1);

/// The answer of a shelf, later.
pub type ShelfAnswer<'a, T> = Pin<Box<dyn Future<Output = Result<T, NoKeys>> + Send + 'a>>;

/// Where the keys are kept: one record, which has the private key in it.
pub trait KeyShelf: fmt::Debug + Send + Sync {
    fn read(&self) -> ShelfAnswer<'_, Option<Vec<u8>>>;

    /// Replaces the record if it is `before`. Returns whether it is `after` now.
    fn replace(&self, before: Option<Vec<u8>>, after: Vec<u8>) -> ShelfAnswer<'_, bool>;

    /// Other processes use it, too, and may have replaced the record.
    fn is_shared(&self) -> bool;
}

/// The keys cannot be read or replaced.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the keys of proofs {0}")]
pub struct NoKeys(pub String);

/// The shelf of data that are kept nowhere.
#[derive(Default)]
pub struct MemoryShelf(Mutex<Option<Vec<u8>>>);

impl fmt::Debug for MemoryShelf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemoryShelf(…)")
    }
}

impl KeyShelf for MemoryShelf {
    fn read(&self) -> ShelfAnswer<'_, Option<Vec<u8>>> {
        let record = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Box::pin(std::future::ready(Ok(record)))
    }

    fn replace(&self, before: Option<Vec<u8>>, after: Vec<u8>) -> ShelfAnswer<'_, bool> {
        let mut record = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = *record == before;
        if is_it {
            *record = Some(after);
        }
        Box::pin(std::future::ready(Ok(is_it)))
    }

    fn is_shared(&self) -> bool {
        false
    }
}

/// The record of the keys as it is kept, oldest first.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Kept {
    keys: Vec<KeptKey>,
}

#[derive(Serialize, Deserialize)]
struct KeptKey {
    made_unix: u64,
    /// In base64url, as a JWK has it.
    public: String,
    /// The private key, of the newest alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seed: Option<String>,
}

impl fmt::Debug for KeptKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeptKey({}, made {})", self.public, self.made_unix)
    }
}

impl Kept {
    /// Draws a new key, forgets the private ones of those before it and the public ones that guards need no more.
    fn rotated(mut self, now_s: u64) -> Result<Kept, NotRotated> {
        let ended_s = self.keys.iter().skip(1).map(|next| next.made_unix).chain([now_s]).collect::<Vec<_>>();
        let mut ended = ended_s.iter();
        self.keys.retain(|_| ended.next().is_some_and(|&ended_s| ended_s + PROOF_KEY_RETIRED_S > now_s));
        if self.keys.len() >= PROOF_KEYS_MAX {
            let oldest_s = ended_s[ended_s.len() - self.keys.len()];
            return Err(NotRotated::TooOften { retry_after_s: (oldest_s + PROOF_KEY_RETIRED_S).saturating_sub(now_s) });
        }
        self.keys.iter_mut().for_each(|key| key.seed = None);
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).expect("the operating system has randomness");
        let (_, public) = pair_of(&seed).expect("32 bytes are a private key");
        // A clock that was set back must not bring an older key back.
        let made_unix = self.keys.last().map_or(now_s, |last| last.made_unix.max(now_s));
        self.keys.push(KeptKey { made_unix, public, seed: Some(URL_SAFE_NO_PAD.encode(seed)) });
        Ok(self)
    }

    fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers and texts are JSON")
    }
}

/// The private key of a seed, ready to sign, and its public key as a JWK has it.
fn pair_of(seed: &[u8]) -> Option<(EncodingKey, String)> {
    let pair = Ed25519KeyPair::from_seed_unchecked(seed).ok()?;
    let key = EncodingKey::from_ed_der(pair.to_pkcs8v1().ok()?.as_ref());
    Some((key, URL_SAFE_NO_PAD.encode(pair.public_key())))
}

/// The keys at one time.
pub(crate) struct Keyring {
    signing: EncodingKey,
    kid: String,
    /// Oldest first, each with the time at which another took its place.
    public: Vec<(PublicProofKey, Option<u64>)>,
    read_at: Instant,
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyring").field("kid", &self.kid).finish_non_exhaustive()
    }
}

/// The keys by which proofs are checked, as RFC 7517 has them.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct ProofKeySet {
    /// The one that signs now comes first.
    keys: Vec<PublicProofKey>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct PublicProofKey {
    #[schemars(extend("const" = "OKP"))]
    kty: &'static str,
    #[schemars(extend("const" = "Ed25519"))]
    crv: &'static str,
    /// The key, in base64url.
    x: String,
    /// Its thumbprint (RFC 7638), which the proofs name that it signed.
    kid: String,
    #[schemars(extend("const" = "EdDSA"))]
    alg: &'static str,
    #[schemars(extend("const" = "sig"))]
    r#use: &'static str,
}

impl PublicProofKey {
    fn of(x: String) -> Option<Self> {
        let json = serde_json::json!({"kty": "OKP", "crv": "Ed25519", "x": x, "alg": "EdDSA"});
        let jwk: Jwk = serde_json::from_value(json).ok()?;
        let kid = jwk.thumbprint(ThumbprintHash::SHA256).ok()?;
        Some(PublicProofKey { kty: "OKP", crv: "Ed25519", x, kid, alg: "EdDSA", r#use: "sig" })
    }
}

impl Keyring {
    pub(super) fn parse(record: &[u8]) -> Result<Keyring, NoKeys> {
        let damaged = || NoKeys("are damaged".to_owned());
        let Kept { keys } = serde_json::from_slice(record).map_err(|_| damaged())?;
        let newest = keys.last().ok_or_else(damaged)?;
        let seed = newest.seed.as_ref().and_then(|seed| URL_SAFE_NO_PAD.decode(seed).ok()).ok_or_else(damaged)?;
        let (signing, x) = pair_of(&seed).filter(|(_, x)| *x == newest.public).ok_or_else(damaged)?;
        let ended_s = keys.iter().skip(1).map(|next| Some(next.made_unix)).chain([None]);
        let public =
            keys.iter().zip(ended_s).map(|(key, ended_s)| Some((PublicProofKey::of(key.public.clone())?, ended_s)));
        let public = public.collect::<Option<Vec<_>>>().ok_or_else(damaged)?;
        let kid = PublicProofKey::of(x).ok_or_else(damaged)?.kid;
        Ok(Keyring { signing, kid, public, read_at: Instant::now() })
    }

    /// The name of the key that signs.
    pub(crate) fn kid(&self) -> &str {
        &self.kid
    }

    /// The keys by which proofs may be checked now.
    pub(crate) fn public(&self, now_s: u64) -> ProofKeySet {
        let is_in_use = |ended_s: Option<u64>| ended_s.is_none_or(|ended_s| now_s < ended_s + PROOF_KEY_RETIRED_S);
        let keys = self.public.iter().rev().filter(|(_, ended_s)| is_in_use(*ended_s));
        ProofKeySet { keys: keys.map(|(key, _)| key.clone()).collect() }
    }

    pub(super) fn sign(&self, kind: &str, statement: &impl Serialize) -> String {
        let header =
            Header { typ: Some(kind.to_owned()), kid: Some(self.kid.clone()), ..Header::new(Algorithm::EdDSA) };
        encode(&header, statement, &self.signing).expect("a key that was parsed signs what is JSON")
    }
}

/// Why there is no new key.
#[derive(Debug)]
pub(crate) enum NotRotated {
    /// As many keys as there may be were in use within the last day.
    TooOften {
        retry_after_s: u64,
    },
    Failed(NoKeys),
}

impl From<NoKeys> for NotRotated {
    fn from(error: NoKeys) -> Self {
        NotRotated::Failed(error)
    }
}

/// The keys of a service.
#[derive(Debug)]
pub struct ProofKeys {
    pub(super) shelf: Box<dyn KeyShelf>,
    current: ArcSwap<Keyring>,
}

impl ProofKeys {
    /// The keys on this shelf, or the first one, made now.
    pub async fn open(shelf: Box<dyn KeyShelf>, now_s: u64) -> Result<ProofKeys, NoKeys> {
        for _ in 0..ATTEMPTS {
            if let Some(record) = shelf.read().await? {
                let current = ArcSwap::from_pointee(Keyring::parse(&record)?);
                return Ok(ProofKeys { shelf, current });
            }
            let first = Kept::default().rotated(now_s).expect("there was none before").to_bytes();
            // Another process may be first.
            shelf.replace(None, first).await?;
        }
        Err(NoKeys("were replaced again and again".to_owned()))
    }

    /// Keys that last as long as this process.
    pub fn drawn() -> ProofKeys {
        let record = Kept::default().rotated(0).expect("there was none before").to_bytes();
        let ring = Keyring::parse(&record).expect("it was just made");
        ProofKeys { shelf: Box::new(MemoryShelf(Mutex::new(Some(record)))), current: ArcSwap::from_pointee(ring) }
    }

    /// The keys as they are: of a shared shelf, as they were a moment ago.
    pub(crate) async fn current(&self) -> Result<Arc<Keyring>, NoKeys> {
        let current = self.current.load_full();
        if !self.shelf.is_shared() || current.read_at.elapsed() < FRESH_FOR {
            return Ok(current);
        }
        let record = self.shelf.read().await?.ok_or_else(|| NoKeys("are gone".to_owned()))?;
        let read = Arc::new(Keyring::parse(&record)?);
        self.current.store(Arc::clone(&read));
        Ok(read)
    }

    /// From now on another key signs.
    pub(crate) async fn rotate(&self, now_s: u64) -> Result<Arc<Keyring>, NotRotated> {
        for _ in 0..ATTEMPTS {
            let before = self.shelf.read().await?.ok_or_else(|| NoKeys("are gone".to_owned()))?;
            let kept: Kept =
                serde_json::from_slice(&before).map_err(|_| NotRotated::Failed(NoKeys("are damaged".to_owned())))?;
            let after = kept.rotated(now_s)?.to_bytes();
            let ring = Arc::new(Keyring::parse(&after)?);
            if self.shelf.replace(Some(before), after).await? {
                self.current.store(Arc::clone(&ring));
                return Ok(ring);
            }
        }
        Err(NotRotated::Failed(NoKeys("were replaced again and again".to_owned())))
    }
}
