//! Client certificates, as the TLS side hands them over: verified already, so the only question left is which of their
//! names is the principal's.

use std::sync::Arc;

use crate::Now;
use crate::identity::{Principal, Source, check_name};

/// The relevant fields of a verified client certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientCert<'a> {
    /// The common name of the subject, where it has exactly one.
    pub common_name: Option<&'a str>,
    /// The subject in full, as `CN=ci,O=Example`.
    pub subject: &'a str,
    /// DNS names, e-mail addresses and URIs among the alternative names, in their order.
    pub sans: &'a [String],
    /// Until when it is valid, in seconds since 1970. A connection can last longer than the certificate it began with.
    pub not_after_s: u64,
}

/// Which name of a certificate is the principal's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NameFrom {
    /// The subject's common name.
    #[default]
    CommonName,
    /// The subject in full.
    Subject,
    /// The first alternative name.
    San,
}

/// How certificates become principals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateSettings {
    pub name_from: NameFrom,
    pub name_prefix: String,
    /// Groups of every caller that shows a certificate.
    pub groups: Vec<Arc<str>>,
}

const NO_COMMON_NAME: &str = "the certificate has no common name, or more than one";

impl CertificateSettings {
    pub(crate) fn principal(&self, certificate: ClientCert<'_>, now: Now) -> Result<Principal, &'static str> {
        if certificate.not_after_s < now.unix_s {
            return Err("the certificate has expired");
        }
        let name = match self.name_from {
            NameFrom::CommonName => certificate.common_name.ok_or(NO_COMMON_NAME)?,
            NameFrom::Subject => certificate.subject,
            NameFrom::San => certificate.sans.first().ok_or("the certificate has no alternative name")?,
        };
        let name = format!("{}{name}", self.name_prefix);
        check_name(&name).map_err(|_| "the certificate's name cannot be a principal's")?;
        Ok(Principal { name: name.into(), groups: self.groups.clone(), source: Source::Certificate })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_taken_from_where_it_is_wanted() {
        let certificate = ClientCert {
            common_name: Some("ci"),
            subject: "CN=ci,O=Example",
            sans: &["ci.example.org".to_owned()],
            not_after_s: 1_000,
        };
        let now = Now { unix_s: 1_000, mono_us: 0 };
        for (name_from, expected) in [
            (NameFrom::CommonName, "cert:ci"),
            (NameFrom::Subject, "cert:CN=ci,O=Example"),
            (NameFrom::San, "cert:ci.example.org"),
        ] {
            let settings = CertificateSettings { name_from, name_prefix: "cert:".to_owned(), groups: Vec::new() };
            assert_eq!(&*settings.principal(certificate, now).unwrap().name, expected);
        }
        let later = Now { unix_s: 1_001, mono_us: 0 };
        let expired = CertificateSettings::default().principal(certificate, later);
        assert_eq!(expired, Err("the certificate has expired"), "on a connection that lasts");
        let bare = ClientCert { common_name: None, subject: "", sans: &[], not_after_s: 1_000 };
        for name_from in [NameFrom::CommonName, NameFrom::Subject, NameFrom::San] {
            let settings = CertificateSettings { name_from, ..CertificateSettings::default() };
            assert!(settings.principal(bare, now).is_err());
        }
    }
}
