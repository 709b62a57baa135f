//! One table of the configuration file, read strictly: every mistake is a sentence that names the key, its rule and the
//! line, and an unknown key is refused with the nearest known one.

use std::cell::RefCell;
use std::ops::RangeInclusive;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::ConfigError;
use super::keys::{read_duration, read_integer};
use super::near::nearest;

/// The file a table is in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TomlText<'a> {
    pub(crate) path: &'a Path,
    pub(crate) text: &'a str,
}

impl TomlText<'_> {
    pub(crate) fn line_at(&self, offset: usize) -> usize {
        1 + self.text.bytes().take(offset).filter(|&byte| byte == b'\n').count()
    }

    fn at(&self, offset: usize) -> String {
        format!("file {} line {}", self.path.display(), self.line_at(offset))
    }
}

/// A table, and which of its keys have been read.
#[derive(Debug)]
pub(crate) struct Section<'a> {
    /// As in `auth.oidc`; empty for the file itself.
    name: String,
    place: TomlText<'a>,
    table: &'a DeTable<'a>,
    /// Where it begins.
    offset: usize,
    asked: RefCell<Vec<&'static str>>,
}

impl<'a> Section<'a> {
    pub(crate) fn new(name: &str, place: TomlText<'a>, table: &'a DeTable<'a>, offset: usize) -> Self {
        Section { name: name.to_owned(), place, table, offset, asked: RefCell::default() }
    }

    /// `auth.oidc.issuer`
    fn path_of(&self, key: &str) -> String {
        if self.name.is_empty() { key.to_owned() } else { format!("{}.{key}", self.name) }
    }

    fn get(&self, key: &'static str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.asked.borrow_mut().push(key);
        self.table.iter().find(|(name, _)| name.get_ref() == key).map(|(_, value)| value)
    }

    /// `auth.proxy.from must be …, but …`
    pub(crate) fn wrong(&self, key: &'static str, rule: &str, problem: &str) -> ConfigError {
        let offset = self.get(key).map_or(self.offset, |value| value.span().start);
        ConfigError::new(format!("{} must be {rule}, but {problem} ({})", self.path_of(key), self.place.at(offset)))
    }

    /// `auth.oidc needs issuer, …`
    pub(crate) fn missing(&self, key: &'static str, rule: &str) -> ConfigError {
        ConfigError::new(format!("{} needs {key}, {rule} ({})", self.name, self.place.at(self.offset)))
    }

    /// A sentence about the table as a whole.
    pub(crate) fn about(&self, sentence: &str) -> ConfigError {
        ConfigError::new(format!("{} {sentence} ({})", self.name, self.place.at(self.offset)))
    }

    fn wrong_type(&self, key: &'static str, rule: &str, value: &DeValue<'_>) -> ConfigError {
        self.wrong(key, rule, &format!("is a TOML {}", value.type_str()))
    }

    pub(crate) fn text(&self, key: &'static str, rule: &str) -> Result<Option<String>, ConfigError> {
        match self.get(key).map(Spanned::get_ref) {
            None => Ok(None),
            Some(DeValue::String(text)) => Ok(Some(text.to_string())),
            Some(other) => Err(self.wrong_type(key, rule, other)),
        }
    }

    /// Text that `read` parses; its error follows the value in a sentence.
    pub(crate) fn parsed<T, E: std::fmt::Display>(
        &self,
        key: &'static str,
        rule: &str,
        read: impl Fn(&str) -> Result<T, E>,
    ) -> Result<Option<T>, ConfigError> {
        let Some(text) = self.text(key, rule)? else { return Ok(None) };
        read(&text).map(Some).map_err(|problem| self.wrong(key, rule, &format!("{text:?} {problem}")))
    }

    /// A list of texts; one alone will do.
    pub(crate) fn texts(&self, key: &'static str, rule: &str) -> Result<Option<Vec<String>>, ConfigError> {
        match self.get(key).map(Spanned::get_ref) {
            None => Ok(None),
            Some(DeValue::String(text)) => Ok(Some(vec![text.to_string()])),
            Some(DeValue::Array(items)) => {
                let texts = items.iter().map(|item| match item.get_ref() {
                    DeValue::String(text) => Ok(text.to_string()),
                    other => Err(self.wrong(key, rule, &format!("has a TOML {} in it", other.type_str()))),
                });
                texts.collect::<Result<_, _>>().map(Some)
            }
            Some(other) => Err(self.wrong_type(key, rule, other)),
        }
    }

    /// The same, each checked by `read`.
    pub(crate) fn list<T, E: std::fmt::Display>(
        &self,
        key: &'static str,
        rule: &str,
        read: impl Fn(&str) -> Result<T, E>,
    ) -> Result<Option<Vec<T>>, ConfigError> {
        let Some(texts) = self.texts(key, rule)? else { return Ok(None) };
        let read = |text: &String| read(text).map_err(|problem| self.wrong(key, rule, &format!("{text:?} {problem}")));
        texts.iter().map(read).collect::<Result<_, _>>().map(Some)
    }

    pub(crate) fn boolean(&self, key: &'static str, default: bool) -> Result<bool, ConfigError> {
        match self.get(key).map(Spanned::get_ref) {
            None => Ok(default),
            Some(DeValue::Boolean(value)) => Ok(*value),
            Some(other) => Err(self.wrong_type(key, "true or false", other)),
        }
    }

    pub(crate) fn integer(&self, key: &'static str, range: RangeInclusive<u64>) -> Result<Option<u64>, ConfigError> {
        let rule = format!("an integer from {} to {}", range.start(), range.end());
        match self.get(key).map(Spanned::get_ref) {
            None => Ok(None),
            Some(DeValue::Integer(integer)) => {
                let text = integer.as_str().replace('_', "");
                let value = u64::from_str_radix(&text, integer.radix()).map(|value| value.to_string());
                let value = read_integer(&value.unwrap_or(text), &range);
                value.map(Some).map_err(|problem| self.wrong(key, &rule, &format!("{:?} {problem}", integer.as_str())))
            }
            Some(other) => Err(self.wrong_type(key, &rule, other)),
        }
    }

    /// In microseconds.
    pub(crate) fn duration(
        &self,
        key: &'static str,
        range: RangeInclusive<u64>,
        default_us: u64,
    ) -> Result<u64, ConfigError> {
        use leasehold_server::duration::format_us;
        let rule = format!("a duration from {} to {}", format_us(*range.start()), format_us(*range.end()));
        Ok(self.parsed(key, &rule, |text| read_duration(text, &range))?.unwrap_or(default_us))
    }

    /// A date or a time as TOML has them, or as text.
    pub(crate) fn time<T, E: std::fmt::Display>(
        &self,
        key: &'static str,
        rule: &str,
        read: impl Fn(&str) -> Result<T, E>,
    ) -> Result<Option<T>, ConfigError> {
        let text = match self.get(key).map(Spanned::get_ref) {
            None => return Ok(None),
            Some(DeValue::String(text)) => text.to_string(),
            Some(DeValue::Datetime(time)) => time.to_string(),
            Some(other) => return Err(self.wrong_type(key, rule, other)),
        };
        read(&text).map(Some).map_err(|problem| self.wrong(key, rule, &format!("{text:?} {problem}")))
    }

    /// `[name.key]`
    pub(crate) fn section(&self, key: &'static str) -> Result<Option<Section<'a>>, ConfigError> {
        match self.get(key) {
            None => Ok(None),
            Some(value) => match value.get_ref() {
                DeValue::Table(table) => {
                    Ok(Some(Section::new(&self.path_of(key), self.place, table, value.span().start)))
                }
                other => Err(self.wrong_type(key, &format!("a table, [{}]", self.path_of(key)), other)),
            },
        }
    }

    /// `[[name.key]]`, any number of times.
    pub(crate) fn sections(&self, key: &'static str) -> Result<Vec<Section<'a>>, ConfigError> {
        let rule = format!("a list of tables, [[{}]]", self.path_of(key));
        match self.get(key).map(Spanned::get_ref) {
            None => Ok(Vec::new()),
            Some(DeValue::Array(items)) => {
                let sections = items.iter().map(|item| match item.get_ref() {
                    DeValue::Table(table) => Ok(Section::new(&self.path_of(key), self.place, table, item.span().start)),
                    other => Err(self.wrong(key, &rule, &format!("has a TOML {} in it", other.type_str()))),
                });
                sections.collect()
            }
            Some(other) => Err(self.wrong_type(key, &rule, other)),
        }
    }

    /// Refuses keys that were not read.
    pub(crate) fn finish(&self) -> Result<(), ConfigError> {
        let asked = self.asked.borrow();
        let unknown = self.table.keys().filter(|key| !asked.contains(&&**key.get_ref()));
        let Some(first) = unknown.min_by_key(|key| key.span().start) else { return Ok(()) };
        let hint = nearest(first.get_ref(), asked.iter().copied());
        let hint = hint.map(|key| format!(", did you mean {key}?")).unwrap_or_default();
        let line = self.place.line_at(first.span().start);
        let path = self.place.path.display();
        Err(ConfigError::new(format!(
            "{path} line {line} has the unknown key {:?}{hint}",
            self.path_of(first.get_ref())
        )))
    }
}
