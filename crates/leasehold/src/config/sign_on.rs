//! `[auth]` and its tables, as settings of `leasehold-auth`. Rules and limits are in `policy`.

use std::net::IpAddr;
use std::path::Path;

use http::{HeaderName, Uri};
use jiff::{Timestamp, civil};
use leasehold_auth::bearer::{ClaimPath, Expected};
use leasehold_auth::certificate::{CertificateSettings, NameFrom};
use leasehold_auth::introspect::IntrospectionSettings;
use leasehold_auth::jwks::{KeySource, RingSettings};
use leasehold_auth::proxy::{Preset, ProxySettings};
use leasehold_auth::secret::{Digest, Secret};
use leasehold_auth::settings::{LoginSettings, OidcSettings};
use leasehold_auth::token::TokenSettings;
use leasehold_auth::{Policy, SignOnSettings};

use super::ConfigError;
use super::keys;
use super::policy::{self, names, read_name};
use super::section::Section;

const S_US: u64 = 1_000_000;
const M_US: u64 = 60 * S_US;
const H_US: u64 = 60 * M_US;

/// The placeholder for a secret in `--print-config`.
pub(crate) const HIDDEN: &str = "(hidden)";

/// Short secrets can be guessed.
const SECRET_MIN: usize = 16;

const NAME_RULE: &str = "a name";
const URL_RULE: &str = "a URL that begins with https:// (or http:// with allow_http = true or on this machine)";

/// Fetches the text of a file.
pub(crate) type Read<'a> = &'a dyn Fn(&Path) -> std::io::Result<String>;

/// The tables about sign-on in a file; `None` if there are none.
pub(crate) fn read(file: &Section<'_>, read: Read<'_>) -> Result<Option<SignOnSettings>, ConfigError> {
    let rules = file.sections("policy")?;
    let limits = file.section("limits")?;
    let Some(auth) = file.section("auth")? else {
        if let Some(rule) = rules.first() {
            return Err(rule.about("is of no use without [auth], which says how callers sign on"));
        }
        return limits.map_or(Ok(None), |limits| {
            Err(limits.about("is of no use without [auth], which says how callers sign on"))
        });
    };
    let settings = SignOnSettings {
        tokens: tokens(&auth)?,
        oidc: auth.section("oidc")?.map(|section| oidc(&section, read)).transpose()?,
        introspection: auth.section("introspection")?.map(|section| introspection(&section, read)).transpose()?,
        proxy: auth.section("proxy")?.map(|section| proxy(&section, read)).transpose()?,
        certificates: auth.section("certificates")?.map(|section| certificates(&section)).transpose()?,
        pools_require_sign_on: auth.boolean("pools_require_sign_on", true)?,
        bind_lock_client: auth.boolean("bind_lock_client", true)?,
        policy: Policy::new(rules.iter().map(policy::rule).collect::<Result<_, _>>()?),
        limits: limits.map(|section| policy::limits(&section)).transpose()?.unwrap_or_default(),
    };
    auth.finish()?;
    let has_a_source = !settings.tokens.is_empty()
        || settings.oidc.is_some()
        || settings.introspection.is_some()
        || settings.proxy.is_some()
        || settings.certificates.is_some();
    if !has_a_source {
        let ways = "[[auth.token]], [auth.oidc], [auth.introspection], [auth.proxy], [auth.certificates]";
        return Err(auth.about(&format!("names no way to sign on, give at least one of {ways}")));
    }
    Ok(Some(settings))
}

fn tokens(auth: &Section<'_>) -> Result<Vec<TokenSettings>, ConfigError> {
    let mut tokens: Vec<TokenSettings> = Vec::new();
    for section in auth.sections("token")? {
        let name = section.parsed("name", NAME_RULE, read_name)?.ok_or_else(|| section.missing("name", NAME_RULE))?;
        let rule = "the digest that `leasehold token new` printed";
        // The text in its place may be the token itself.
        let digest = section.parsed("digest", rule, Digest::parse).map_err(ConfigError::without_value)?;
        let digest = digest.ok_or_else(|| section.missing("digest", rule))?;
        let expires_at_s = section.time("expires", "a date or an RFC 3339 time", read_time)?;
        let groups = names(&section, "groups")?;
        section.finish()?;
        if tokens.iter().any(|known| known.digest == digest) {
            return Err(section.wrong("digest", "another than those of the other tokens", "is there twice"));
        }
        tokens.push(TokenSettings { name, digest, groups, expires_at_s });
    }
    Ok(tokens)
}

fn oidc(section: &Section<'_>, read: Read<'_>) -> Result<OidcSettings, ConfigError> {
    let allow_http = section.boolean("allow_http", false)?;
    let url = |key| section.parsed(key, URL_RULE, |text| read_url(text, allow_http));
    let issuer = url("issuer")?.ok_or_else(|| section.missing("issuer", "the URL that its tokens name as iss"))?;
    let audience_rule =
        "the name (or names) under which this service is known to the provider, as tokens name it in aud";
    let audiences =
        section.texts("audience", audience_rule)?.ok_or_else(|| section.missing("audience", audience_rule))?;
    if audiences.is_empty() || audiences.iter().any(String::is_empty) {
        return Err(section.wrong("audience", audience_rule, "is empty"));
    }
    let defaults = RingSettings::default();
    let settings = OidcSettings {
        keys: KeySource {
            allow_http: allow_http || issuer.starts_with("http://"),
            jwks_uri: url("jwks_uri")?,
            issuer: issuer.clone(),
        },
        ring: RingSettings {
            renew_after_us: section.duration("keys_refresh", S_US..=24 * H_US, defaults.renew_after_us)?,
            max_age_us: section.duration("keys_max_age", M_US..=7 * 24 * H_US, defaults.max_age_us)?,
            cooldown_us: section.duration("keys_cooldown", S_US..=H_US, defaults.cooldown_us)?,
        },
        expected: Expected {
            issuer,
            audiences,
            name_claim: claim(section, "name_claim", "sub")?,
            groups_claim: claim(section, "groups_claim", "groups")?,
            name_prefix: prefix(section, "name_prefix")?,
            group_prefix: prefix(section, "group_prefix")?,
            nonce: None,
        },
        login: login(section, read)?,
    };
    section.finish()?;
    if settings.ring.renew_after_us > settings.ring.max_age_us {
        return Err(section.wrong("keys_refresh", "at most keys_max_age", "is longer"));
    }
    Ok(settings)
}

/// The dashboard's own login, if it has a name at the provider.
fn login(section: &Section<'_>, read: Read<'_>) -> Result<Option<LoginSettings>, ConfigError> {
    let client_secret = secret(section, "client_secret", "client_secret_file", read)?;
    let scopes = section.text("scopes", "names of scopes with spaces between them")?;
    let session_us = section.duration("session", M_US..=30 * 24 * H_US, 8 * H_US)?;
    let rule = "the name of the dashboard at the provider";
    let Some(client_id) = section.text("client_id", rule)? else {
        for (key, is_given) in [("client_secret", client_secret.is_some()), ("scopes", scopes.is_some())] {
            if is_given {
                return Err(section.missing("client_id", &format!("{rule}, as it has {key}")));
            }
        }
        return Ok(None);
    };
    if client_id.is_empty() {
        return Err(section.wrong("client_id", rule, "is empty"));
    }
    let scopes = scopes.unwrap_or_else(|| "openid profile".to_owned());
    if !scopes.split_ascii_whitespace().any(|scope| scope == "openid") {
        return Err(section.wrong("scopes", "names of scopes, openid among them", &format!("{scopes:?} lacks openid")));
    }
    Ok(Some(LoginSettings { client_id, client_secret, scopes, session_us }))
}

fn introspection(section: &Section<'_>, read: Read<'_>) -> Result<IntrospectionSettings, ConfigError> {
    let allow_http = section.boolean("allow_http", false)?;
    let rule = "the URL where the provider is asked about tokens";
    let endpoint = section
        .parsed("endpoint", URL_RULE, |text| read_url(text, allow_http))?
        .ok_or_else(|| section.missing("endpoint", rule))?;
    let client = "the name of this service at the provider";
    let settings = IntrospectionSettings {
        endpoint,
        client_id: section.text("client_id", client)?.ok_or_else(|| section.missing("client_id", client))?,
        client_secret: secret(section, "client_secret", "client_secret_file", read)?
            .ok_or_else(|| section.missing("client_secret", "or client_secret_file"))?,
        audiences: section.texts("audience", "the names of this service at the provider")?.unwrap_or_default(),
        name_claim: claim(section, "name_claim", "sub")?,
        groups_claim: claim(section, "groups_claim", "groups")?,
        name_prefix: prefix(section, "name_prefix")?,
        group_prefix: prefix(section, "group_prefix")?,
        cache_us: section.duration("cache", 0..=10 * M_US, 30 * S_US)?,
    };
    section.finish()?;
    Ok(settings)
}

fn proxy(section: &Section<'_>, read: Read<'_>) -> Result<ProxySettings, ConfigError> {
    let presets = Preset::ALL.map(Preset::as_str).join(", ");
    let rule = format!("one of {presets}");
    let preset = section.parsed("preset", &rule, |text| Preset::parse(text).ok_or("is none of these"))?;
    let from_rule = "the addresses or networks of the proxy, such as 127.0.0.1 or 10.1.2.0/24";
    let from =
        section.list("from", from_rule, keys::read_network)?.ok_or_else(|| section.missing("from", from_rule))?;
    if from.is_empty() {
        return Err(section.wrong("from", from_rule, "is empty"));
    }
    let secret_rule = "a secret of at least 16 characters that the proxy sends along (or secret_file)";
    let secret =
        secret(section, "secret", "secret_file", read)?.ok_or_else(|| section.missing("secret", secret_rule))?;
    if secret.expose().len() < SECRET_MIN {
        return Err(section.about("needs a secret of at least 16 characters, or an attacker could guess it"));
    }
    let header_rule = "the name of a header";
    let header = |key| section.parsed(key, header_rule, |text| text.parse::<HeaderName>().map_err(|_| "is none"));
    let user_header = header("user_header")?
        .or(preset.map(Preset::user_header))
        .ok_or_else(|| section.missing("user_header", "the header with the name of the user, or a preset"))?;
    let separator_rule = "the one character between two groups";
    let separator = section.parsed("groups_separator", separator_rule, |text| {
        let mut chars = text.chars();
        chars.next().filter(|_| chars.next().is_none()).ok_or("is not one character")
    })?;
    let settings = ProxySettings {
        from,
        secret_header: header("secret_header")?.unwrap_or(HeaderName::from_static("leasehold-proxy-secret")),
        secret,
        user_header,
        groups_header: header("groups_header")?.or(preset.map(Preset::groups_header)),
        groups_separator: separator.or(preset.map(Preset::groups_separator)).unwrap_or(','),
        name_prefix: prefix(section, "name_prefix")?,
        group_prefix: prefix(section, "group_prefix")?,
    };
    section.finish()?;
    let ProxySettings { secret_header, user_header, groups_header, .. } = &settings;
    if user_header == secret_header || groups_header.as_ref().is_some_and(|g| g == user_header || g == secret_header) {
        return Err(section.about("needs three different headers for user, groups and secret"));
    }
    Ok(settings)
}

fn certificates(section: &Section<'_>) -> Result<CertificateSettings, ConfigError> {
    let rule = "one of common-name, subject, san";
    let name_from = section.parsed("name_from", rule, |text| match text {
        "common-name" => Ok(NameFrom::CommonName),
        "subject" => Ok(NameFrom::Subject),
        "san" => Ok(NameFrom::San),
        _ => Err("is none of these"),
    })?;
    let settings = CertificateSettings {
        name_from: name_from.unwrap_or_default(),
        name_prefix: prefix(section, "name_prefix")?,
        groups: names(section, "groups")?,
    };
    section.finish()?;
    Ok(settings)
}

/// A secret, in the file itself or in one of its own.
fn secret(
    section: &Section<'_>,
    key: &'static str,
    file_key: &'static str,
    read: Read<'_>,
) -> Result<Option<Secret>, ConfigError> {
    let rule = "a secret";
    let given = section.parsed(key, rule, |text| match text {
        "" => Err("is empty"),
        HIDDEN => Err("is what --print-config shows in place of a secret"),
        text => Ok(Secret::new(text)),
    });
    // The error about a secret does not contain it.
    let given = given.map_err(ConfigError::without_value);
    let file_rule = "the name of a file with the secret in it";
    let file = section.parsed(file_key, file_rule, |path| match read(Path::new(path)) {
        Ok(text) if text.trim().is_empty() => Err("is empty".to_owned()),
        Ok(text) => Ok(Secret::new(text.trim())),
        Err(error) => Err(format!("could not be read: {error}")),
    })?;
    match (given?, file) {
        (Some(_), Some(_)) => Err(section.about(&format!("has both {key} and {file_key}, give one of them"))),
        (given, file) => Ok(given.or(file)),
    }
}

fn claim(section: &Section<'_>, key: &'static str, default: &str) -> Result<ClaimPath, ConfigError> {
    let rule = "the name of a claim, such as sub or realm_access.roles";
    let claim =
        section.parsed(key, rule, |text| if text.is_empty() { Err("is empty") } else { Ok(text.to_owned()) })?;
    Ok(ClaimPath::new(claim.unwrap_or_else(|| default.to_owned())))
}

fn prefix(section: &Section<'_>, key: &'static str) -> Result<String, ConfigError> {
    Ok(section.text(key, "text")?.unwrap_or_default())
}

/// An address with a host. Plain HTTP only where no third party can listen in, or where the operator allows it.
fn read_url(text: &str, allow_http: bool) -> Result<String, &'static str> {
    let uri: Uri = text.parse().map_err(|_| "is no URL")?;
    let host = uri.host().filter(|host| !host.is_empty()).ok_or("has no host")?;
    let is_here = host == "localhost"
        || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    match uri.scheme_str() {
        Some("https") => {}
        Some("http") if is_here || allow_http => {}
        Some("http") => return Err("is not encrypted"),
        _ => return Err("begins with neither https:// nor http://"),
    }
    if uri.query().is_some() || text.contains('#') || uri.authority().is_some_and(|a| a.as_str().contains('@')) {
        return Err("has characters that do not belong there");
    }
    Ok(text.to_owned())
}

/// A day, from its beginning in UTC, or a point in time. In seconds since 1970.
pub(crate) fn read_time(text: &str) -> Result<u64, &'static str> {
    let timestamp = text.parse::<Timestamp>().ok().or_else(|| {
        let date: civil::Date = text.parse().ok()?;
        date.to_zoned(jiff::tz::TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
    });
    let seconds = timestamp.and_then(|timestamp| u64::try_from(timestamp.as_second()).ok());
    seconds.ok_or("is neither, or before 1970")
}
