//! `--print-config`: the configuration in effect as a file that gives the same again, with the source of each value.

use std::fmt::Write as _;

use leasehold_server::duration::format_us;

use super::keys::ValueRule;
use super::{Loaded, Store};

/// Values are padded to this, so that the comments line up.
const COMMENT_COLUMN: usize = 44;

impl Loaded {
    pub(crate) fn to_toml(&self) -> String {
        let mut text = String::new();
        for (key, given) in &self.chosen.0 {
            let line = match given {
                None => format!("# {} is not set", key.name),
                Some(_) if key.name == "data" && !matches!(self.config.store, Store::Directory(_)) => {
                    "# data is not used".to_owned()
                }
                Some(given) => {
                    format!("{} = {}", key.name, self.value(key.name, &key.rule, &given.text.to_string_lossy()))
                }
            };
            let source = given.as_ref().map_or_else(|| "default".to_owned(), |given| given.source.to_string());
            let _ = writeln!(text, "{line:COMMENT_COLUMN$} # {source}");
        }
        text.push_str(&self.tables);
        text
    }

    /// As it took effect, which may be written differently from how it was given.
    fn value(&self, name: &str, rule: &ValueRule, given: &str) -> String {
        let quoted = |text: &str| toml::Value::from(text).to_string();
        match rule {
            // A stronger source that names `data` can undo it.
            ValueRule::Bool if name == "memory" => (self.config.store == Store::Memory).to_string(),
            ValueRule::Bool => super::keys::read_bool(given).expect("checked before").to_string(),
            ValueRule::Integer(range) => super::keys::read_integer(given, range).expect("checked before").to_string(),
            ValueRule::Size(range) => {
                quoted(&crate::size::format(super::keys::read_size(given, range).expect("checked before")))
            }
            // The one value that another one can change.
            ValueRule::Duration(_) if name == "default_ttl" => quoted(&format_us(self.config.settings.default_ttl_us)),
            ValueRule::Duration(range) => {
                quoted(&format_us(super::keys::read_duration(given, range).expect("checked before")))
            }
            ValueRule::Address => quoted(&super::keys::read_address(given).expect("checked before").to_string()),
            ValueRule::PowerOfTwo(_) => given.to_owned(),
            ValueRule::Path
            | ValueRule::SharedStore
            | ValueRule::File(_)
            | ValueRule::ClientAuth
            | ValueRule::Url
            | ValueRule::Networks
            | ValueRule::AuditLog
            | ValueRule::Collector
            | ValueRule::LogFormat
            | ValueRule::LogFilter
            | ValueRule::Hosts
            | ValueRule::Origins => quoted(given),
        }
    }
}
