//! The token of a user. etcd forgets it after five minutes of silence, or when users change, and then a new one is
//! asked for.

use std::fmt;
use std::fs;

use tokio::sync::Mutex;
use tonic::Status;
use tonic::metadata::{Ascii, MetadataValue};

use super::connection::Connection;
use super::verdict;
use crate::address::User;
use crate::error::Refusal;
use crate::wire::AuthenticateRequest;

const PASSWORD_BYTES_MAX: usize = 4096;

/// The credentials, and what they got.
pub(super) struct Tokens {
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
    pub(super) fn new(user: &User) -> Result<Tokens, Refusal> {
        let file = user.password_file.display();
        let text = fs::read_to_string(&user.password_file)
            .map_err(|error| Refusal::Setting(format!("the password file {file} cannot be read: {error}")))?;
        let password = text.lines().next().unwrap_or_default();
        if password.is_empty() || password.len() > PASSWORD_BYTES_MAX {
            let bytes = password.len();
            return Err(Refusal::Setting(format!(
                "the first line of the password file {file} has {bytes} bytes; a password has 1 to {PASSWORD_BYTES_MAX}"
            )));
        }
        Ok(Tokens { name: user.name.clone(), password: password.to_owned(), current: Mutex::new(Token::None) })
    }

    /// The token to show, asked for on this connection if there is none.
    pub(super) async fn current(&self, connection: &Connection) -> Result<Option<MetadataValue<Ascii>>, Status> {
        let mut current = self.current.lock().await;
        if *current == Token::None {
            let request = AuthenticateRequest { name: self.name.clone(), password: self.password.clone() };
            *current = match connection.call(request, None).await {
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
        match &*current {
            Token::Some(token) => Ok(Some(token.clone())),
            Token::None | Token::Needless => Ok(None),
        }
    }

    /// Forgets a token that was refused, unless a newer one is there already.
    pub(super) async fn forget(&self, refused: Option<&MetadataValue<Ascii>>) {
        let mut current = self.current.lock().await;
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

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("name", &self.name).finish_non_exhaustive()
    }
}
