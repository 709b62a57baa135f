//! The token a client signs on with: given, in a file that may be rotated, or from a callback. It is in no text.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::Error;

/// Where the token comes from.
#[derive(Clone, Default)]
pub(crate) enum TokenSource {
    #[default]
    None,
    Given(Arc<str>),
    File(PathBuf),
    Callback(Arc<dyn Fn() -> String + Send + Sync>),
}

impl fmt::Debug for TokenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TokenSource::None => f.write_str("None"),
            TokenSource::Given(_) => f.write_str("Given"),
            TokenSource::File(path) => write!(f, "File({})", path.display()),
            TokenSource::Callback(_) => f.write_str("Callback"),
        }
    }
}

/// The token in use, read again when the service refuses it.
pub(crate) struct Token {
    source: TokenSource,
    current: Mutex<Option<Arc<str>>>,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({:?})", self.source)
    }
}

impl Token {
    /// Reads it for the first time.
    pub(crate) fn new(source: TokenSource) -> Result<Token, Error> {
        let current = Mutex::new(read(&source)?);
        Ok(Token { source, current })
    }

    pub(crate) fn current(&self) -> Option<Arc<str>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns whether reading it again can bring another one.
    pub(crate) fn can_change(&self) -> bool {
        matches!(self.source, TokenSource::File(_) | TokenSource::Callback(_))
    }

    /// A file that cannot be read at the moment leaves the token as it is.
    pub(crate) fn read_again(&self) {
        if let Ok(token) = read(&self.source) {
            *self.current.lock().unwrap_or_else(PoisonError::into_inner) = token;
        }
    }
}

fn read(source: &TokenSource) -> Result<Option<Arc<str>>, Error> {
    let text: Arc<str> = match source {
        TokenSource::None => return Ok(None),
        TokenSource::Given(token) => Arc::clone(token),
        TokenSource::Callback(callback) => callback().trim().into(),
        TokenSource::File(path) => {
            let text = std::fs::read_to_string(path);
            let wrong =
                |error| Error::Setting(format!("the token file \"{}\" cannot be read: {error}", path.display()));
            text.map_err(wrong)?.trim().into()
        }
    };
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Error::Setting("a token is one word of visible ASCII characters".into()));
    }
    Ok(Some(text))
}
