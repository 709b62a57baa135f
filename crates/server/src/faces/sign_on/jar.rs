//! How cookies are set: scripts do not see them, and other sites do not send them along.

use http::header::HeaderValue;
use leasehold_auth::sign_on::Cookie;

#[derive(Clone, Copy)]
pub(super) struct Jar {
    pub(super) is_encrypted: bool,
}

impl Jar {
    pub(super) fn set(self, cookie: Cookie, value: &str, max_age_s: u64) -> HeaderValue {
        let (name, more) = (cookie.name(self.is_encrypted), if self.is_encrypted { "; Secure" } else { "" });
        let text = format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={max_age_s}{more}");
        let mut value = HeaderValue::try_from(text).expect("base64url and plain words");
        value.set_sensitive(true);
        value
    }
}

#[cfg(test)]
mod tests {
    use leasehold_auth::sign_on::SESSION_COOKIE;

    use super::*;

    #[test]
    fn cookies_are_for_nobody_else() {
        let value = |is_encrypted| Jar { is_encrypted }.set(SESSION_COOKIE, "x", 60).to_str().unwrap().to_owned();
        assert_eq!(value(false), "leasehold-session=x; Path=/; HttpOnly; SameSite=Lax; Max-Age=60");
        assert_eq!(value(true), "__Host-leasehold-session=x; Path=/; HttpOnly; SameSite=Lax; Max-Age=60; Secure");
    }
}
