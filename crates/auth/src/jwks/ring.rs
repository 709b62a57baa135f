//! The known keys of a provider, and when to ask again. No IO and no clock: looked at with `look`, told by `begin` and
//! `end` about questions under way.
//!
//! ```text
//! fetched ──────── fresh ────────▶ aging (asked for again in the background) ──────▶ too old: nothing is believed
//!         0                 renew_after                                     max_age
//! ```

use std::sync::Arc;

use crate::bearer::VerifyingKey;

const S_US: u64 = 1_000_000;

/// How long keys are good for, and how often the provider may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSettings {
    /// Keys older than this are fetched again while they still serve.
    pub renew_after_us: u64,
    /// Keys older than this are not believed any more.
    pub max_age_us: u64,
    /// Between two questions, whatever the reason.
    pub cooldown_us: u64,
}

impl Default for RingSettings {
    fn default() -> Self {
        RingSettings { renew_after_us: 600 * S_US, max_age_us: 24 * 3600 * S_US, cooldown_us: 30 * S_US }
    }
}

/// After a question without an answer, the next one comes sooner.
const RETRY_US: u64 = 2 * S_US;

#[derive(Debug)]
pub(super) struct Ring {
    settings: RingSettings,
    keys: Option<Keys>,
    /// The provider is not asked again before this time.
    next_ask_at_us: u64,
    /// A question is under way.
    is_asking: bool,
}

#[derive(Debug)]
struct Keys {
    keys: Vec<Arc<VerifyingKey>>,
    fetched_at_us: u64,
}

/// The result of looking for a token's key.
#[derive(Debug)]
pub(super) enum Look {
    Found(Arc<VerifyingKey>),
    /// The same, and it is time to ask again.
    Aging(Arc<VerifyingKey>),
    /// The provider has to be asked first, or is being asked.
    Ask,
    /// The provider was asked a moment ago and has no such key.
    Unknown,
    /// There is no key, and the provider was asked a moment ago.
    Unavailable,
}

impl Ring {
    pub(super) fn new(settings: RingSettings) -> Self {
        Ring { settings, keys: None, next_ask_at_us: 0, is_asking: false }
    }

    pub(super) fn look(&self, kid: Option<&str>, now_us: u64) -> Look {
        let may_ask = now_us >= self.next_ask_at_us;
        let is_answer_near = may_ask || self.is_asking;
        let Some(keys) = self.keys.as_ref().filter(|keys| now_us < keys.fetched_at_us + self.settings.max_age_us)
        else {
            return if is_answer_near { Look::Ask } else { Look::Unavailable };
        };
        match keys.find(kid) {
            Some(key) if may_ask && now_us >= keys.fetched_at_us + self.settings.renew_after_us => Look::Aging(key),
            Some(key) => Look::Found(key),
            None if is_answer_near => Look::Ask,
            None => Look::Unknown,
        }
    }

    /// Returns whether the provider may be asked now. If so, no other caller may ask for a while.
    pub(super) fn begin(&mut self, now_us: u64) -> bool {
        let may_ask = now_us >= self.next_ask_at_us;
        if may_ask {
            self.next_ask_at_us = now_us + self.settings.cooldown_us;
            self.is_asking = true;
        }
        may_ask
    }

    /// The question that began at `now_us` has an answer, or none.
    pub(super) fn end(&mut self, keys: Option<Vec<VerifyingKey>>, now_us: u64) {
        self.is_asking = false;
        match keys {
            Some(keys) => {
                let keys = keys.into_iter().map(Arc::new).collect();
                self.keys = Some(Keys { keys, fetched_at_us: now_us });
            }
            // The known keys serve until they are too old.
            None => self.next_ask_at_us = now_us + RETRY_US.min(self.settings.cooldown_us),
        }
    }
}

impl Keys {
    /// By id. A token that names none is checked with the only key there is.
    fn find(&self, kid: Option<&str>) -> Option<Arc<VerifyingKey>> {
        let found = match kid {
            Some(kid) => self.keys.iter().find(|key| key.kid() == Some(kid)),
            None if self.keys.len() == 1 => self.keys.first(),
            None => None,
        };
        found.cloned()
    }
}
