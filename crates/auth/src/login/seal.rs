//! Values that a browser keeps for us: encrypted and authenticated with a key of this process, so that they can be
//! neither read nor changed nor passed off for something else. A restart forgets the key, and with it all sessions. The
//! nodes of a cluster have a key in common, which follows from the cluster's secret: a session holds on each of them.

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::Now;

#[derive(Debug)]
pub(super) struct Sealer {
    key: RandomizedNonceKey,
    is_shared: bool,
}

impl Sealer {
    pub(super) fn new(secret: Option<&[u8; 32]>) -> Self {
        let mut key = [0; 32];
        match secret {
            None => aws_lc_rs::rand::fill(&mut key).expect("the operating system has randomness"),
            Some(secret) => {
                let secret = hmac::Key::new(hmac::HMAC_SHA256, secret);
                key.copy_from_slice(hmac::sign(&secret, b"leasehold sessions of people").as_ref());
            }
        }
        let key = RandomizedNonceKey::new(&AES_256_GCM, &key).expect("a key of 32 bytes");
        Sealer { key, is_shared: secret.is_some() }
    }

    /// The instant of a login or logout, in microseconds, on a clock that all who have the key read alike.
    pub(super) fn instant(&self, now: Now) -> u64 {
        if self.is_shared { now.unix_s * 1_000_000 } else { now.mono_us }
    }

    /// A value sealed for one purpose does not open for another.
    pub(super) fn seal(&self, purpose: &str, mut bytes: Vec<u8>) -> String {
        let sealed = self.key.seal_in_place_append_tag(Aad::from(purpose.as_bytes()), &mut bytes);
        let nonce = sealed.expect("short texts can be sealed");
        let mut whole = nonce.as_ref().to_vec();
        whole.append(&mut bytes);
        URL_SAFE_NO_PAD.encode(whole)
    }

    pub(super) fn open(&self, purpose: &str, sealed: &str) -> Option<Vec<u8>> {
        let whole = URL_SAFE_NO_PAD.decode(sealed).ok()?;
        let (nonce, sealed) = whole.split_at_checked(NONCE_LEN)?;
        let mut sealed = sealed.to_vec();
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let opened = self.key.open_in_place(nonce, Aad::from(purpose.as_bytes()), &mut sealed).ok()?;
        Some(opened.to_vec())
    }
}
