//! `leasehold token new`: makes an API token. The token is printed once; its digest goes into the configuration.

use std::time::SystemTime;

use leasehold_auth::token::make;

use crate::cli::TokenNewArgs;
use crate::config::read_time;
use crate::exit::Exit;

pub(crate) fn new(args: &TokenNewArgs) -> Exit {
    for (flag, name) in std::iter::once(("--name", &args.name)).chain(args.role.iter().map(|role| ("--role", role))) {
        if let Err(problem) = leasehold_auth::identity::check_name(name) {
            eprintln!("leasehold: {flag} {problem}, got {name:?}");
            return Exit::Usage;
        }
    }
    if let Some(expires) = &args.expires
        && let Err(problem) = check_end(expires, SystemTime::now())
    {
        eprintln!(
            "leasehold: --expires must be a day such as 2027-01-31 or an RFC 3339 time, but {expires:?} {problem}"
        );
        return Exit::Usage;
    }
    let (token, digest) = make();
    let quoted = |text: &String| toml::Value::from(text.as_str()).to_string();
    let roles: Vec<String> = args.role.iter().map(quoted).collect();
    println!("{}", token.expose());
    // On standard error, so that the token alone can be piped to where it is kept.
    eprintln!("# This token is shown once and kept nowhere. Send it as: Authorization: Bearer <token>");
    eprintln!("# Put this into the configuration file, and reload (kill -HUP) or restart:");
    eprintln!();
    eprintln!("[[auth.token]]");
    eprintln!("name = {}", quoted(&args.name));
    eprintln!("digest = \"{digest}\"");
    eprintln!("groups = [{}]", roles.join(", "));
    if let Some(expires) = &args.expires {
        eprintln!("expires = {}", quoted(expires));
    }
    Exit::Done
}

/// Checks that the configuration would understand this time, and that the token is good for a while.
fn check_end(expires: &str, now: SystemTime) -> Result<(), &'static str> {
    let at_s = read_time(expires)?;
    let now_s = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    if at_s > now_s { Ok(()) } else { Err("is in the past") }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_token_ends_at_a_time_that_the_configuration_understands() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_hours(500_000);
        for good in ["2027-02-01", "2027-01-15T08:00:01Z", "9999-12-30"] {
            assert_eq!(check_end(good, now), Ok(()), "{good}");
        }
        for (bad, expected) in [
            ("tomorrow", "is neither, or before 1970"),
            ("", "is neither, or before 1970"),
            ("2027-02-30", "is neither, or before 1970"),
            ("1969-01-01", "is neither, or before 1970"),
            ("2027-01-15T08:00:00Z", "is in the past"),
        ] {
            assert_eq!(check_end(bad, now), Err(expected), "{bad}");
        }
    }
}
