//! The password for a host: the first line of a file, or the line of a file in psql's format that fits.

use std::fs;
use std::path::{Path, PathBuf};

use leasehold_dial::first_line;

use crate::address::{Address, Host, Password};
use crate::error::PostgresRefusal;

/// psql looks for sockets under this name.
const LOCAL: &str = "localhost";
const PASSFILE_BYTES_MAX: u64 = 1 << 20;

/// Read afresh for every connection, so that a password can be changed while nodes run.
pub(super) fn of(address: &Address, host: &Host) -> Result<Option<String>, PostgresRefusal> {
    match &address.password {
        Password::File(file) => first_line(file).map(Some).map_err(|error| PostgresRefusal::Setting(error.to_string())),
        Password::PassFile(file) => match find(file, address, host)? {
            Some(password) => Ok(Some(password)),
            None => Err(PostgresRefusal::Setting(format!(
                "no line of the password file {} is for {host}, the database {:?} and the user {:?}",
                file.display(),
                address.database,
                address.user
            ))),
        },
        Password::Environment => match std::env::var_os("PGPASSFILE").map(PathBuf::from) {
            Some(file) if file.exists() => find(&file, address, host),
            _ => Ok(None),
        },
    }
}

fn find(file: &Path, address: &Address, host: &Host) -> Result<Option<String>, PostgresRefusal> {
    let unreadable = |error: &dyn std::fmt::Display| {
        PostgresRefusal::Setting(format!("the password file {} cannot be read: {error}", file.display()))
    };
    let bytes = fs::metadata(file).map_err(|error| unreadable(&error))?.len();
    if bytes > PASSFILE_BYTES_MAX {
        return Err(unreadable(&format!("it has {bytes} bytes, and at most {PASSFILE_BYTES_MAX} are read")));
    }
    let text = fs::read_to_string(file).map_err(|error| unreadable(&error))?;
    let (name, port) = match host {
        Host::Tcp(name, port) => (&**name, port),
        Host::Unix(_, port) => (LOCAL, port),
    };
    let wanted = [name, &port.to_string(), &address.database, &address.user];
    Ok(text.lines().filter(|line| !line.starts_with('#')).find_map(|line| password_in(line, &wanted)))
}

/// The password of a line `host:port:database:user:password`, if its first four fields are `*` or those wanted. A
/// colon or a backslash within a field has a backslash before it.
fn password_in(line: &str, wanted: &[&str; 4]) -> Option<String> {
    let (mut fields, mut field) = (Vec::new(), String::new());
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => field.extend(chars.next()),
            ':' if fields.len() < wanted.len() => fields.push(std::mem::take(&mut field)),
            c => field.push(c),
        }
    }
    let fits = fields.len() == wanted.len()
        && fields.iter().zip(wanted).all(|(field, wanted)| field == "*" || field == wanted)
        && !field.is_empty();
    fits.then_some(field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_as_psql_reads_them() {
        let wanted = ["db.example", "5432", "my:db", "lease"];
        for (line, password) in [
            ("db.example:5432:my\\:db:lease:open sesame", Some("open sesame")),
            ("*:*:*:*:a\\:b\\\\c", Some("a:b\\c")),
            ("*:*:*:*:a:b", Some("a:b")),
            ("*:5433:*:*:x", None),
            ("*:*:my:lease:x", None),
            ("*:*:*:*:", None),
            ("*:*:*", None),
            ("", None),
        ] {
            assert_eq!(password_in(line, &wanted).as_deref(), password, "{line}");
        }
    }
}
