//! `leasehold token new`: makes an API token. The token is printed once; its digest goes into the configuration.

use leasehold_auth::token::make;

use crate::cli::TokenNewArgs;
use crate::exit::Exit;

pub(crate) fn new(args: &TokenNewArgs) -> Exit {
    for (flag, name) in std::iter::once(("--name", &args.name)).chain(args.role.iter().map(|role| ("--role", role))) {
        if let Err(problem) = leasehold_auth::identity::check_name(name) {
            eprintln!("leasehold: {flag} {problem}, got {name:?}");
            return Exit::Usage;
        }
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
