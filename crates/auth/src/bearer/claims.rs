//! The claims of a token, compared with the expected ones: issuer, audience, lifetime, and the claims that become the
//! principal.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::BearerError;
use crate::Now;
use crate::identity::{Principal, Source, check_name};
use crate::limits::GROUPS_MAX;

/// Clocks of provider and service may differ by this much.
const LEEWAY_S: u64 = 30;

/// The claims that a token needs to be believed, and where in it the principal is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    pub issuer: String,
    /// Any of these.
    pub audiences: Vec<String>,
    pub name_claim: ClaimPath,
    pub groups_claim: ClaimPath,
    pub name_prefix: String,
    pub group_prefix: String,
    /// The nonce of a login under way; access tokens have none.
    pub nonce: Option<String>,
}

/// A claim by name, or a way down into objects: `realm_access.roles`. A claim whose own name has dots, such as
/// `https://example.org/groups`, is found by its whole name first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimPath(String);

/// A token that is believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    pub principal: Principal,
    /// Seconds since 1970, the leeway included.
    pub expires_at_s: u64,
}

impl ClaimPath {
    pub fn new(path: impl Into<String>) -> Self {
        ClaimPath(path.into())
    }

    pub(crate) fn find<'a>(&self, claims: &'a Map<String, Value>) -> Option<&'a Value> {
        if let Some(value) = claims.get(&self.0) {
            return Some(value);
        }
        let mut steps = self.0.split('.');
        let first = claims.get(steps.next()?)?;
        steps.try_fold(first, |value, step| value.get(step))
    }
}

impl fmt::Display for ClaimPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Expected {
    pub(super) fn check(&self, claims: &Map<String, Value>, now: Now) -> Result<Verified, BearerError> {
        match claims.get("iss") {
            None => return Err(BearerError::Missing("iss")),
            Some(Value::String(issuer)) if *issuer == self.issuer => {}
            Some(Value::String(_)) => return Err(BearerError::WrongIssuer),
            Some(_) => return Err(BearerError::WrongKind("iss")),
        }
        self.check_audience(claims)?;
        let exp_s = seconds(claims, "exp")?.ok_or(BearerError::Missing("exp"))?;
        let expires_at_s = exp_s.saturating_add(LEEWAY_S);
        if expires_at_s <= now.unix_s {
            return Err(BearerError::Expired);
        }
        let latest_s = now.unix_s + LEEWAY_S;
        for name in ["nbf", "iat"] {
            if seconds(claims, name)?.is_some_and(|from_s| from_s > latest_s) {
                return Err(BearerError::NotYet);
            }
        }
        if let Some(nonce) = &self.nonce
            && claims.get("nonce").and_then(Value::as_str) != Some(nonce)
        {
            return Err(BearerError::WrongNonce);
        }
        Ok(Verified { principal: self.principal(claims, Source::Oidc)?, expires_at_s })
    }

    /// A string or a list of strings; one that is ours is enough.
    fn check_audience(&self, claims: &Map<String, Value>) -> Result<(), BearerError> {
        let is_ours = |audience: &Value| match audience {
            Value::String(audience) => Ok(self.audiences.contains(audience)),
            _ => Err(BearerError::WrongKind("aud")),
        };
        let found = match claims.get("aud") {
            None => return Err(BearerError::Missing("aud")),
            Some(Value::Array(audiences)) => {
                audiences.iter().try_fold(false, |found, audience| Ok(found | is_ours(audience)?))?
            }
            Some(one) => is_ours(one)?,
        };
        if found { Ok(()) } else { Err(BearerError::WrongAudience) }
    }

    pub(crate) fn principal(&self, claims: &Map<String, Value>, source: Source) -> Result<Principal, BearerError> {
        let name = self.name_claim.find(claims).and_then(Value::as_str).ok_or(BearerError::BadName)?;
        let name = format!("{}{name}", self.name_prefix);
        check_name(&name).map_err(|_| BearerError::BadName)?;
        let groups = match self.groups_claim.find(claims) {
            None | Some(Value::Null) => Vec::new(),
            // `scope` and its kin: one string with spaces.
            Some(Value::String(groups)) => self.groups(groups.split_ascii_whitespace().map(Some))?,
            Some(Value::Array(groups)) => self.groups(groups.iter().map(Value::as_str))?,
            Some(_) => return Err(BearerError::BadGroups),
        };
        Ok(Principal { name: name.into(), groups, source })
    }

    fn groups<'a>(&self, groups: impl Iterator<Item = Option<&'a str>>) -> Result<Vec<Arc<str>>, BearerError> {
        let mut kept = Vec::new();
        for group in groups {
            let group = format!("{}{}", self.group_prefix, group.ok_or(BearerError::BadGroups)?);
            if kept.len() == GROUPS_MAX || check_name(&group).is_err() {
                return Err(BearerError::BadGroups);
            }
            kept.push(group.into());
        }
        Ok(kept)
    }
}

/// A point in time, as a number of seconds. A string is none, whatever it says.
pub(crate) fn seconds(claims: &Map<String, Value>, name: &'static str) -> Result<Option<u64>, BearerError> {
    match claims.get(name) {
        None => Ok(None),
        Some(Value::Number(number)) => {
            let whole = number.as_u64().or_else(|| {
                let seconds = number.as_f64().filter(|seconds| (0.0..9e15).contains(seconds))?;
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range, cut to seconds")]
                Some(seconds as u64)
            });
            whole.map(Some).ok_or(BearerError::WrongKind(name))
        }
        Some(_) => Err(BearerError::WrongKind(name)),
    }
}
