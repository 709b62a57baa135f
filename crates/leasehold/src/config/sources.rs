//! Sources of values: flags, environment and file, each read into the same text by key. The parent module decides which
//! one wins, and what the text means.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::keys::{EARLIER, ENV_PREFIX, KEYS, Key};
use super::near::nearest;
use super::section::{Section, TomlText};
use super::{ConfigError, sign_on};

/// Where a value was found. Later ones win over earlier ones.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum GivenBy {
    Default,
    File { path: PathBuf, line: usize },
    Environment { variable: String },
    Flag { flag: String },
}

impl GivenBy {
    /// Orders sources by kind alone.
    pub(crate) fn rank(&self) -> u8 {
        match self {
            GivenBy::Default => 0,
            GivenBy::File { .. } => 1,
            GivenBy::Environment { .. } => 2,
            GivenBy::Flag { .. } => 3,
        }
    }
}

impl fmt::Display for GivenBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GivenBy::Default => f.write_str("default"),
            GivenBy::File { path, line } => write!(f, "file {} line {line}", path.display()),
            GivenBy::Environment { variable } => write!(f, "environment {variable}"),
            GivenBy::Flag { flag } => write!(f, "flag {flag}"),
        }
    }
}

/// A value as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Given {
    pub(crate) text: OsString,
    pub(crate) source: GivenBy,
}

/// The values of one source, by key.
pub(crate) type Layer = Vec<(&'static Key, Given)>;

/// The values of the environment.
#[derive(Debug, Default)]
pub(crate) struct Environment {
    pub(crate) layer: Layer,
    /// `LEASEHOLD_CONFIG`
    pub(crate) config: Option<PathBuf>,
    /// Variables that look like ours and are not.
    pub(crate) warnings: Vec<String>,
}

/// Reads `LEASEHOLD_*`. A variable that is empty counts as not set, as compose files like to pass them on like this.
pub(crate) fn environment(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Environment {
    let mut found = Environment::default();
    for (variable, text) in variables {
        let Some(variable) = variable.to_str() else { continue };
        let Some(suffix) = variable.strip_prefix(ENV_PREFIX) else { continue };
        if text.is_empty() {
            continue;
        }
        if suffix == "CONFIG" {
            found.config = Some(PathBuf::from(text));
        } else if let Some(key) = named_by(suffix) {
            let source = GivenBy::Environment { variable: variable.to_owned() };
            found.layer.push((key, Given { text, source }));
        } else if !is_service_link(suffix, &text) && !CLIENT_VARIABLES.contains(&suffix) {
            let hint = suggestion(&suffix.to_ascii_lowercase())
                .map(|key| format!(", did you mean {}?", key.variable()))
                .unwrap_or_default();
            found.warnings.push(format!("environment variable {variable} is unknown and ignored{hint}"));
        }
    }
    found.warnings.sort_unstable();
    // Of two names for one setting, the one that it has now is read last and wins.
    found.layer.sort_by_key(|(key, given)| given.source == GivenBy::Environment { variable: key.variable() });
    found
}

/// The key of a variable without its prefix. Variables are in capitals.
fn named_by(suffix: &str) -> Option<&'static Key> {
    Key::find(&suffix.to_ascii_lowercase()).filter(|_| !suffix.contains(|letter: char| letter.is_ascii_lowercase()))
}

/// Variables that clients read, and those that `leasehold run` sets for its command. A shell that has them may start a
/// server, too.
const CLIENT_VARIABLES: [&str; 12] = [
    "URL",
    "TOKEN",
    "TOKEN_FILE",
    "CA_FILE",
    "CERT_FILE",
    "KEY_FILE",
    "HANDLE",
    "FENCING_TOKEN",
    "SLOT",
    "LEASE",
    "KIND",
    "RESOURCE",
];

/// Kubernetes describes a service called `leasehold` to every pod in variables of this prefix.
fn is_service_link(suffix: &str, text: &OsStr) -> bool {
    suffix.starts_with("SERVICE_HOST")
        || suffix.starts_with("SERVICE_PORT")
        || suffix.starts_with("PORT_")
        || (suffix == "PORT" && text.to_str().is_some_and(|text| text.contains("://")))
}

/// The values of a file.
#[derive(Debug, Default)]
pub(crate) struct File {
    pub(crate) layer: Layer,
    pub(crate) sign_on: Option<leasehold_auth::SignOnSettings>,
    /// The tables as they were written, without secrets.
    pub(crate) tables: String,
}

/// Tables of the file, beside the keys.
const TABLES: [&str; 3] = ["auth", "policy", "limits"];

/// The usual mistakes, as the writer of a file would say them. The line itself is not repeated: it may be a secret.
fn in_words(message: &str) -> String {
    let known = [
        ("string values must be quoted", "there is no value after the =, or a text is not in quotes (name = \"text\")"),
        ("key with no value", "there is no = and value after a name (name = value)"),
        ("unclosed array table", "a heading is not closed ([[name]])"),
        ("unclosed table", "a heading is not closed ([name])"),
        ("invalid basic string", "a text is not closed by its quote, or has an escape that there is not"),
        ("duplicate key", "a name is there a second time"),
    ];
    let found = known.iter().find(|(theirs, _)| message.starts_with(theirs));
    found.map_or_else(|| message.replace('\n', ", "), |(_, ours)| (*ours).to_owned())
}

/// Reads a file's text. Unknown keys are refused by name.
pub(crate) fn file(path: &Path, text: &str, read: sign_on::Read<'_>) -> Result<File, ConfigError> {
    let shown = path.display();
    let line_at = |offset: usize| 1 + text.bytes().take(offset).filter(|&byte| byte == b'\n').count();
    let table = DeTable::parse(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_at(span.start));
        ConfigError::new(format!("{shown} line {line} is not TOML: {}", in_words(error.message())))
    })?;
    let has = |key: &str| table.get_ref().keys().any(|name| name.get_ref() == key);
    let mut layer = Layer::new();
    if let Some((earlier, now)) = EARLIER.iter().find(|(earlier, now)| [*earlier, *now].iter().all(|name| has(name))) {
        return Err(ConfigError::new(format!("{shown} has both {now} and {earlier}, which are one setting")));
    }
    for (name, value) in table.get_ref().iter().filter(|(name, _)| !TABLES.contains(&&**name.get_ref())) {
        let line = line_at(name.span().start);
        let Some(key) = Key::find(name.get_ref()) else {
            let hint =
                suggestion(name.get_ref()).map(|key| format!(", did you mean {}?", key.name)).unwrap_or_default();
            return Err(ConfigError::new(format!(
                "{shown} line {line} has the unknown key {:?}{hint}",
                name.get_ref()
            )));
        };
        let text = scalar(value.get_ref()).ok_or_else(|| {
            let kind = value.get_ref().type_str();
            ConfigError::new(format!("{} must be {}, but is a TOML {kind} ({shown} line {line})", key.name, key.rule))
        })?;
        layer.push((key, Given { text: text.into(), source: GivenBy::File { path: path.to_owned(), line } }));
    }
    // The first mistake in the file is the one to tell about.
    layer.sort_by(|(_, a), (_, b)| a.source.cmp(&b.source));
    let whole = Section::new("", TomlText { path, text }, table.get_ref(), 0);
    Ok(File { layer, sign_on: sign_on::read(&whole, read)?, tables: without_secrets(text) })
}

/// The tables of a file that was read before, with its secrets hidden.
fn without_secrets(text: &str) -> String {
    fn hide(value: &mut toml::Value) {
        match value {
            toml::Value::Table(table) => {
                for (name, value) in table.iter_mut() {
                    if name == "secret" || name == "client_secret" {
                        *value = sign_on::HIDDEN.into();
                    } else {
                        hide(value);
                    }
                }
            }
            toml::Value::Array(items) => items.iter_mut().for_each(hide),
            _ => {}
        }
    }
    let mut whole: toml::Table = text.parse().expect("it was parsed before");
    whole.retain(|name, _| TABLES.contains(&name));
    whole.iter_mut().for_each(|(_, value)| hide(value));
    if whole.is_empty() { String::new() } else { format!("\n{whole}") }
}

/// Text, whole numbers and truth values as text.
fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Boolean(value) => Some(value.to_string()),
        DeValue::Integer(integer) => {
            i64::from_str_radix(&integer.as_str().replace('_', ""), integer.radix()).ok().map(|value| value.to_string())
        }
        DeValue::Float(_) | DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    }
}

/// The key that was probably meant, if one is near.
fn suggestion(written: &str) -> Option<&'static Key> {
    let names = KEYS.iter().map(|key| key.name).chain(EARLIER.iter().map(|(earlier, _)| *earlier));
    nearest(written, names).and_then(Key::find)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_suggested_and_far_ones_are_not() {
        for (written, expected) in [
            ("ttl_mx", Some("ttl_max")),
            ("max_tll", Some("ttl_max")),
            ("wait-max", Some("wait_max")),
            ("Data", Some("data")),
            ("colour", None),
        ] {
            assert_eq!(suggestion(written).map(|key| key.name), expected, "{written}");
        }
    }
}
