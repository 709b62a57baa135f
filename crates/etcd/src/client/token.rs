//! The token of a user. etcd forgets it after five minutes of silence, or when users change, and then a new one is
//! asked for.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_dial::first_line;
use tokio::sync::Mutex;
use tokio::time::timeout;
use tonic::Status;
use tonic::metadata::{Ascii, MetadataValue};

use super::connection::Connection;
use super::verdict;
use crate::address::User;
use crate::error::EtcdRefusal;
use crate::wire::AuthenticateRequest;

/// etcd hashes the password slowly on purpose, which on a busy member takes longer than an attempt.
const PATIENCE: Duration = Duration::from_secs(5);

/// The credentials, and what they got.
#[derive(Clone)]
pub(super) struct Tokens(Arc<Inner>);

struct Inner {
    name: String,
    password: String,
    current: Mutex<Token>,
}

#[derive(Clone, PartialEq)]
enum Token {
    /// Not asked for yet, or refused since.
    None,
    /// etcd knows no users.
    Needless,
    Some(MetadataValue<Ascii>),
}

impl Tokens {
    pub(super) fn new(user: &User) -> Result<Tokens, EtcdRefusal> {
        let password = first_line(&user.password_file).map_err(|error| EtcdRefusal::Setting(error.to_string()))?;
        let name = user.name.clone();
        Ok(Tokens(Arc::new(Inner { name, password, current: Mutex::new(Token::None) })))
    }

    /// The token to show, asked for on this connection if there is none. Asking goes on when the attempt that began it
    /// is given up, and the next attempt waits for it.
    pub(super) async fn current(&self, connection: &Connection) -> Result<Option<MetadataValue<Ascii>>, Status> {
        if let Ok(current) = self.0.current.try_lock()
            && *current != Token::None
        {
            return Ok(current.shown());
        }
        let (inner, connection) = (Arc::clone(&self.0), connection.clone());
        let asked = tokio::spawn(async move { inner.ask(&connection).await });
        asked.await.unwrap_or_else(|error| Err(Status::unavailable(error.to_string())))
    }

    /// Forgets a token that was refused, unless a newer one is there already.
    pub(super) async fn forget(&self, refused: Option<&MetadataValue<Ascii>>) {
        let mut current = self.0.current.lock().await;
        let is_refused = match &*current {
            Token::Some(token) => Some(token) == refused,
            Token::Needless => true,
            Token::None => false,
        };
        if is_refused {
            *current = Token::None;
        }
    }
}

impl Token {
    fn shown(&self) -> Option<MetadataValue<Ascii>> {
        match self {
            Token::Some(token) => Some(token.clone()),
            Token::None | Token::Needless => None,
        }
    }
}

impl Inner {
    /// Authenticates, unless another task did meanwhile.
    async fn ask(&self, connection: &Connection) -> Result<Option<MetadataValue<Ascii>>, Status> {
        let mut current = self.current.lock().await;
        if *current == Token::None {
            let request = AuthenticateRequest { name: self.name.clone(), password: self.password.clone() };
            let answer = timeout(PATIENCE, connection.call(request, None)).await;
            *current = match answer.unwrap_or_else(|_| Err(Status::unavailable("authentication takes too long"))) {
                Ok(answer) => {
                    let token = MetadataValue::try_from(answer.token);
                    Token::Some(token.map_err(|_| Status::unavailable("the token is no text"))?)
                }
                Err(status) if verdict::is_without_users(&status) => {
                    tracing::warn!(user = self.name, "etcd has authentication off: any client may change its keys");
                    Token::Needless
                }
                Err(status) => return Err(status),
            };
        }
        Ok(current.shown())
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("name", &self.0.name).finish_non_exhaustive()
    }
}
