//! The error of a statement, sorted by what has to be done about it.

use std::error::Error as _;

use tokio_postgres::Error;
use tokio_postgres::error::{DbError, SqlState};

use crate::error::PostgresRefusal;

/// The reaction to an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Send it again. It may have been executed.
    Again(String),
    /// This host is a standby: look for the primary, and send it again.
    Standby(String),
    /// Final.
    Refused(PostgresRefusal),
}

/// Refusals are known by their code, never by their words, which PostgreSQL translates. Everything unknown is tried
/// again: a refusal by mistake would stop a node, and a repetition by mistake only lasts until the caller's patience
/// ends.
pub(super) fn of(error: &Error) -> Verdict {
    let Some(said) = error.as_db_error() else { return Verdict::Again(plain(error)) };
    let text = words(said);
    let refused = Verdict::Refused;
    match said.code() {
        code if *code == SqlState::DISK_FULL => refused(PostgresRefusal::Full(text)),
        code if *code == SqlState::INVALID_PASSWORD => {
            refused(PostgresRefusal::Denied(format!("the user or the password is wrong ({text})")))
        }
        code if *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION => refused(PostgresRefusal::Denied(text)),
        code if *code == SqlState::INSUFFICIENT_PRIVILEGE => {
            refused(PostgresRefusal::Denied(format!("a permission is missing ({text})")))
        }
        code if *code == SqlState::INVALID_CATALOG_NAME => refused(PostgresRefusal::Denied(text)),
        code if *code == SqlState::UNDEFINED_TABLE || *code == SqlState::INVALID_SCHEMA_NAME => {
            refused(PostgresRefusal::Absent(text))
        }
        code if *code == SqlState::INVALID_SQL_STATEMENT_NAME => refused(pooler(&text)),
        code if *code == SqlState::PROTOCOL_VIOLATION && said.message().contains("startup parameter") => {
            refused(pooler(&text))
        }
        code if *code == SqlState::DATA_CORRUPTED || *code == SqlState::INDEX_CORRUPTED => {
            refused(PostgresRefusal::Corrupt(text))
        }
        code if *code == SqlState::READ_ONLY_SQL_TRANSACTION => {
            Verdict::Standby("it is read-only: a standby, or a primary that was set so".to_owned())
        }
        // The connection was made before a change of the tables: a new one knows them.
        code if *code == SqlState::FEATURE_NOT_SUPPORTED && said.message().contains("cached plan") => {
            Verdict::Again(text)
        }
        // Mistakes in a statement or a value, which are ours.
        code if code.code().starts_with("42") || code.code().starts_with("22") || code.code().starts_with("0A") => {
            refused(PostgresRefusal::Other(text))
        }
        _ => Verdict::Again(text),
    }
}

pub(super) fn pooler(what: &str) -> PostgresRefusal {
    PostgresRefusal::Unfit(format!(
        "a pooler stands before PostgreSQL and loses what belongs to a session ({what}); connect to the server itself"
    ))
}

/// The message of the server, with its code.
fn words(said: &DbError) -> String {
    let detail = said.detail().map(|detail| format!(": {detail}")).unwrap_or_default();
    format!("{}{detail} [{}]", said.message(), said.code().code())
}

/// The innermost cause: the outer ones say only that there was an error.
pub(super) fn plain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = inner.to_string();
        cause = inner.source();
    }
    text
}
