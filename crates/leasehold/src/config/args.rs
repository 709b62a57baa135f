//! The command line of `serve`: a flag for every setting of the table, and the two that are no settings. All values are
//! text here, so that a value is checked by the same rule and gets the same sentence wherever it comes from.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::Error;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};

use super::keys::{KEYS, Key, ValueRule};
use super::sources::{Given, GivenBy, Layer};

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) flags: Flags,

    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Print the configuration that results, and where each value comes from, and end
    #[arg(long)]
    pub(crate) print_config: bool,
}

/// The settings that the command line names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flags(pub(crate) Layer);

impl Flags {
    /// As if one flag had been given.
    pub(crate) fn one(name: &str, text: impl Into<OsString>) -> Self {
        let key = Key::find(name).expect("it is a setting");
        Flags(vec![(key, Given { text: text.into(), source: GivenBy::Flag { flag: key.flag() } })])
    }
}

impl Args for Flags {
    fn augment_args(command: Command) -> Command {
        command.args(KEYS.iter().map(arg))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Flags::augment_args(command)
    }
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let text = |key: &Key| match key.rule {
            ValueRule::Bool => matches.get_flag(key.name).then(|| OsString::from("true")),
            _ => matches.get_one::<OsString>(key.name).cloned(),
        };
        let given =
            |key: &'static Key| Some((key, Given { text: text(key)?, source: GivenBy::Flag { flag: key.flag() } }));
        Ok(Flags(KEYS.iter().filter_map(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Flags::from_arg_matches(matches)?;
        Ok(())
    }
}

fn arg(key: &'static Key) -> Arg {
    let default = match key.rule {
        // Said by the flag: without it, it is not so.
        ValueRule::Bool => None,
        _ => key.default_words(),
    };
    let help = match default {
        Some(default) => format!("{} [default: {default}]", key.help),
        None => key.help.to_owned(),
    };
    let arg = Arg::new(key.name).long(key.name.replace('_', "-")).help(help);
    let arg = arg.aliases(key.earlier_name().map(|name| name.replace('_', "-")));
    let arg = match key.rule.value_name() {
        Some(name) => arg.value_name(name).action(ArgAction::Set).value_parser(value_parser!(OsString)),
        None => arg.action(ArgAction::SetTrue),
    };
    if key.name == "data" { arg.conflicts_with("memory") } else { arg }
}
