//! `leasehold policy explain`: whether a caller may do something, and which rule decides.

use std::sync::Arc;

use leasehold_auth::{Action, Identity, Principal, SignOnSettings, Source, Target};
use leasehold_engine::Kind;

use crate::cli::PolicyExplainArgs;
use crate::config;
use crate::config::ServeArgs;
use crate::exit::Exit;

pub(crate) fn explain(args: &PolicyExplainArgs) -> Exit {
    match explanation(args) {
        Ok((text, is_allowed)) => {
            out!("{text}");
            if is_allowed { Exit::Done } else { Exit::Failed }
        }
        Err(sentence) => {
            eprintln!("leasehold: {sentence}");
            Exit::Usage
        }
    }
}

fn explanation(args: &PolicyExplainArgs) -> Result<(String, bool), String> {
    let serve = ServeArgs { config: args.config.clone(), ..ServeArgs::default() };
    let loaded = config::load(&serve, std::env::vars_os(), |path| std::fs::read_to_string(path));
    let sign_on = loaded.map_err(|error| error.to_string())?.config.sign_on;
    let sign_on = sign_on.ok_or("there is no [auth] in the configuration, so every caller may do everything")?;
    let groups = args.group.iter().map(|group| group.as_str().into()).collect();
    let who = match &args.user {
        None if args.group.is_empty() => Identity::ANONYMOUS,
        None => return Err("--group needs --user: a caller in a group has a name".to_owned()),
        Some(user) => Principal {
            name: user.as_str().into(),
            groups: if args.group.is_empty() { groups_of(&sign_on, user) } else { groups },
            source: Source::Token,
        }
        .into(),
    };
    let actions = Action::ALL.map(Action::as_str).join(", ");
    let action = Action::parse(&args.action)
        .ok_or_else(|| format!("--action must be one of {actions}, got {:?}", args.action))?;
    let target = match args.resource.as_deref() {
        None if action.is_service_wide() || action == Action::Observe => Target::Service,
        None => return Err(format!("--resource is needed for {action}: pool, claim:NAME or lock:NAME")),
        Some("pool") => Target::Pool,
        Some(text) => match text.split_once(':') {
            Some(("claim", name)) => Target::Named(Kind::Claim, name),
            Some(("lock", name)) => Target::Named(Kind::Lock, name),
            _ => return Err(format!("--resource must be pool, claim:NAME or lock:NAME, got {text:?}")),
        },
    };
    let target = if action.is_service_wide() { Target::Service } else { target };
    let explanation = sign_on.policy.explain(&who, action, target);
    Ok((explanation.to_string(), explanation.is_allowed()))
}

/// The groups that the tokens of this name have in the file. Those of other callers are not known here.
fn groups_of(sign_on: &SignOnSettings, user: &str) -> Vec<Arc<str>> {
    let tokens = sign_on.tokens.iter().filter(|token| &*token.name == user);
    let mut groups: Vec<Arc<str>> = tokens.flat_map(|token| token.groups.iter().cloned()).collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}
