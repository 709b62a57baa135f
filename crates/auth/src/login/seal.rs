//! Values that a browser keeps for us: encrypted and authenticated with a key of this process, so that they can be
//! neither read nor changed nor passed off for something else. A restart forgets the key, and with it all sessions.

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

#[derive(Debug)]
pub(super) struct Sealer(RandomizedNonceKey);

impl Sealer {
    pub(super) fn new() -> Self {
        let mut key = [0; 32];
        aws_lc_rs::rand::fill(&mut key).expect("the operating system has randomness");
        Sealer(RandomizedNonceKey::new(&AES_256_GCM, &key).expect("a key of 32 bytes"))
    }

    /// A value sealed for one purpose does not open for another.
    pub(super) fn seal(&self, purpose: &str, mut bytes: Vec<u8>) -> String {
        let sealed = self.0.seal_in_place_append_tag(Aad::from(purpose.as_bytes()), &mut bytes);
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
        let opened = self.0.open_in_place(nonce, Aad::from(purpose.as_bytes()), &mut sealed).ok()?;
        Some(opened.to_vec())
    }
}
