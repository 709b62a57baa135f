//! Basic authentication (RFC 7617), for clients that know nothing else: the password is an API token, the user its
//! name. Only the form of the credential is read here; the token is checked where those of `Bearer` are.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Stands for the name of the token, where a client insists on a user.
const ANY_USER: &str = "-";

/// Clients leave the padding out or write it.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A user and the API token that is its password.
#[derive(PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) user: String,
    pub(crate) token: String,
}

impl Pair {
    /// Decodes `base64(user:token)`. A token has no colon and a name may have some, so the last one separates them.
    pub(crate) fn decode(encoded: &str) -> Result<Self, &'static str> {
        const WRONG: &str = "the Basic credential must be the base64 of a user, a colon and an API token";
        let bytes = BASE64.decode(encoded).map_err(|_| WRONG)?;
        let text = std::str::from_utf8(&bytes).map_err(|_| WRONG)?;
        let (user, token) = text.rsplit_once(':').ok_or(WRONG)?;
        Ok(Pair { user: user.to_owned(), token: token.to_owned() })
    }
}

/// Returns whether this user may be sent with the token of this name. Without Basic authentication there is no user.
pub(crate) fn fits(user: Option<&str>, name: &str) -> bool {
    user.is_none_or(|user| user == ANY_USER || user == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(encoded: &str) -> Option<(String, String)> {
        Pair::decode(encoded).ok().map(|pair| (pair.user, pair.token))
    }

    #[test]
    fn the_last_colon_separates_user_and_token() {
        let pair = |user: &str, token: &str| Some((user.to_owned(), token.to_owned()));
        for (plain, expected) in [
            ("ci:lh_1", pair("ci", "lh_1")),
            ("sso:ci:lh_1", pair("sso:ci", "lh_1")),
            (":lh_1", pair("", "lh_1")),
            ("ci:", pair("ci", "")),
            ("lh_1", None),
            ("", None),
        ] {
            assert_eq!(decode(&BASE64.encode(plain)), expected, "{plain}");
            assert_eq!(decode(BASE64.encode(plain).trim_end_matches('=')), expected, "{plain} without padding");
        }
        for wrong in ["***", "YTpi====", "Y", "_-_-", "gICAgA=="] {
            assert_eq!(decode(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_user_is_the_tokens_name_or_a_dash() {
        for (user, expected) in
            [(None, true), (Some("ci"), true), (Some("-"), true), (Some(""), false), (Some("CI"), false)]
        {
            assert_eq!(fits(user, "ci"), expected, "{user:?}");
        }
    }
}
