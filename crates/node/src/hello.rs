//! How a link begins: each side proves that it knows the cluster's secret, and they agree on the number of the link.
//!
//! ```text
//! dialer                                    acceptor
//! Hello    from, to, nonce           ──▶
//!                                    ◀──    Welcome  instance, nonce, last number, proof
//! Ready    number, proof             ──▶
//! ```
//!
//! A process that can read the shared store knows the secret, and so is a node; nothing else is. The proofs cover both
//! nonces, both addresses and, where the link is encrypted, keying material of the connection: a process in the middle
//! has two connections with different material, so neither side believes it, whatever its certificate says.

use aws_lc_rs::{constant_time, hmac};
use leasehold_cluster::wire::VERSION;
use serde::{Deserialize, Serialize};

/// The largest frame of a greeting.
pub(crate) const HELLO_BYTES_MAX: usize = 4_096;

const NONCE_BYTES: usize = 32;
const MAC_BYTES: usize = 32;

pub(crate) type Nonce = [u8; NONCE_BYTES];

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Hello {
    /// The lowest and the highest version of messages that the dialer speaks.
    pub(crate) speaks: (u16, u16),
    /// The address of the dialer.
    pub(crate) from: String,
    /// The address it wanted to reach.
    pub(crate) to: String,
    pub(crate) nonce: Nonce,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Welcome {
    Granted(Granted),
    /// Why there is no link.
    Refused(String),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Granted {
    /// The version of messages that both speak.
    pub(crate) version: u16,
    /// Drawn at the start of the process: tells two processes at one address apart.
    pub(crate) instance: u64,
    pub(crate) nonce: Nonce,
    /// The number of the last link between the two that the acceptor knows of.
    pub(crate) last: u64,
    pub(crate) proof: [u8; MAC_BYTES],
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Ready {
    /// The number of this link: higher than that of every earlier one.
    pub(crate) number: u64,
    pub(crate) proof: [u8; MAC_BYTES],
}

/// The key of links, derived from the cluster's secret.
#[derive(Debug)]
pub(crate) struct LinkKey(hmac::Key);

/// The facts that both sides of a greeting know.
#[derive(Clone, Debug)]
pub(crate) struct Greeting {
    pub(crate) hello: Hello,
    /// The acceptor's nonce.
    pub(crate) nonce: Nonce,
    /// Keying material of the connection; empty where it is not encrypted.
    pub(crate) binding: Vec<u8>,
}

/// The side that proves something. A proof of one side is none of the other.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Side {
    Dialer { number: u64 },
    Acceptor { instance: u64, last: u64 },
}

impl LinkKey {
    pub(crate) fn new(secret: &[u8; 32]) -> LinkKey {
        let root = hmac::Key::new(hmac::HMAC_SHA256, secret);
        LinkKey(hmac::Key::new(hmac::HMAC_SHA256, hmac::sign(&root, b"leasehold links between nodes").as_ref()))
    }

    pub(crate) fn prove(&self, greeting: &Greeting, side: Side) -> [u8; MAC_BYTES] {
        let mut context = hmac::Context::with_key(&self.0);
        let mut take = |bytes: &[u8]| {
            // With its length, so that no two greetings are the same bytes.
            context.update(&(bytes.len() as u64).to_be_bytes());
            context.update(bytes);
        };
        match side {
            Side::Dialer { number } => {
                take(b"dialer");
                take(&number.to_be_bytes());
            }
            Side::Acceptor { instance, last } => {
                take(b"acceptor");
                take(&instance.to_be_bytes());
                take(&last.to_be_bytes());
            }
        }
        take(greeting.hello.from.as_bytes());
        take(greeting.hello.to.as_bytes());
        take(&greeting.hello.nonce);
        take(&greeting.nonce);
        take(&greeting.binding);
        let tag = context.sign();
        tag.as_ref().try_into().expect("SHA-256 has 32 bytes")
    }

    pub(crate) fn is_proven(&self, greeting: &Greeting, side: Side, proof: &[u8; MAC_BYTES]) -> bool {
        constant_time::verify_slices_are_equal(&self.prove(greeting, side), proof).is_ok()
    }
}

impl Hello {
    pub(crate) fn new(from: &str, to: &str) -> Hello {
        Hello { speaks: (VERSION, VERSION), from: from.to_owned(), to: to.to_owned(), nonce: fresh_nonce() }
    }

    /// The version that both sides speak.
    pub(crate) fn version(&self) -> Option<u16> {
        let (lowest, highest) = self.speaks;
        (lowest <= VERSION && highest >= lowest).then(|| highest.min(VERSION))
    }
}

pub(crate) fn fresh_nonce() -> Nonce {
    let mut nonce = [0; NONCE_BYTES];
    getrandom::fill(&mut nonce).expect("the system has randomness");
    nonce
}

#[cfg(test)]
mod tests {
    use super::*;

    fn greeting() -> Greeting {
        Greeting { hello: Hello::new("a:1", "b:2"), nonce: fresh_nonce(), binding: vec![7; 32] }
    }

    #[test]
    fn a_proof_is_of_one_greeting_one_side_and_one_secret() {
        let (key, other) = (LinkKey::new(&[1; 32]), LinkKey::new(&[2; 32]));
        let greeting = greeting();
        let side = Side::Dialer { number: 9 };
        let proof = key.prove(&greeting, side);
        assert!(key.is_proven(&greeting, side, &proof));
        assert!(!other.is_proven(&greeting, side, &proof), "of another cluster");
        assert!(!key.is_proven(&greeting, Side::Dialer { number: 10 }, &proof), "of another number");
        assert!(!key.is_proven(&greeting, Side::Acceptor { instance: 9, last: 0 }, &proof), "of the other side");
        let swapped = Greeting {
            hello: Hello { from: "b:2".into(), to: "a:1".into(), ..greeting.hello.clone() },
            ..greeting.clone()
        };
        assert!(!key.is_proven(&swapped, side, &proof), "of another direction");
        let between = Greeting { binding: vec![8; 32], ..greeting.clone() };
        assert!(!key.is_proven(&between, side, &proof), "a process in the middle has another connection");
        let later = Greeting { nonce: fresh_nonce(), ..greeting };
        assert!(!key.is_proven(&later, side, &proof), "of an earlier greeting");
    }

    #[test]
    fn versions_that_overlap_agree_on_the_lower_one() {
        let of = |speaks| Hello { speaks, ..Hello::new("a:1", "b:2") }.version();
        assert_eq!(of((VERSION, VERSION)), Some(VERSION));
        assert_eq!(of((VERSION, VERSION + 1)), Some(VERSION));
        assert_eq!(of((VERSION + 1, VERSION + 1)), None);
        assert_eq!(of((VERSION, VERSION - 1)), None, "of a range that is none");
    }
}
