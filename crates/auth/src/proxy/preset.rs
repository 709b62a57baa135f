//! The header names that well-known proxies use, so that naming the proxy is enough.

use http::HeaderName;

/// A proxy we know the headers of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// Apache with `mod_shib`, passing on `REMOTE_USER` and the groups as its documentation shows.
    Shibboleth,
    Oauth2Proxy,
    Authelia,
    Authentik,
    /// `auth_request`, with the usual names.
    Nginx,
    /// `forwardAuth`, with the usual names.
    Traefik,
}

impl Preset {
    pub const ALL: [Preset; 6] =
        [Preset::Shibboleth, Preset::Oauth2Proxy, Preset::Authelia, Preset::Authentik, Preset::Nginx, Preset::Traefik];

    pub fn as_str(self) -> &'static str {
        match self {
            Preset::Shibboleth => "shibboleth",
            Preset::Oauth2Proxy => "oauth2-proxy",
            Preset::Authelia => "authelia",
            Preset::Authentik => "authentik",
            Preset::Nginx => "nginx",
            Preset::Traefik => "traefik",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Preset::ALL.into_iter().find(|preset| preset.as_str() == text)
    }

    pub fn user_header(self) -> HeaderName {
        HeaderName::from_static(match self {
            Preset::Shibboleth | Preset::Nginx => "x-remote-user",
            Preset::Oauth2Proxy | Preset::Traefik => "x-forwarded-user",
            Preset::Authelia => "remote-user",
            Preset::Authentik => "x-authentik-username",
        })
    }

    pub fn groups_header(self) -> HeaderName {
        HeaderName::from_static(match self {
            Preset::Shibboleth | Preset::Nginx => "x-remote-groups",
            Preset::Oauth2Proxy | Preset::Traefik => "x-forwarded-groups",
            Preset::Authelia => "remote-groups",
            Preset::Authentik => "x-authentik-groups",
        })
    }

    /// Between two groups.
    pub fn groups_separator(self) -> char {
        match self {
            Preset::Shibboleth => ';',
            Preset::Authentik => '|',
            Preset::Oauth2Proxy | Preset::Authelia | Preset::Nginx | Preset::Traefik => ',',
        }
    }
}
