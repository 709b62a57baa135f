//! The names in a certificate and its lifetime. rustls has decided before whether it may be believed.

use x509_cert::Certificate;
use x509_cert::der::Decode as _;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::{DirectoryString, GeneralName};
use x509_cert::name::Name;

use crate::handler::PeerCertificate;

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");

/// From when to when a certificate is valid, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Validity {
    pub(super) not_before_s: u64,
    pub(super) not_after_s: u64,
}

/// `None` for bytes that are no certificate.
pub(super) fn validity(der: &[u8]) -> Option<Validity> {
    Certificate::from_der(der).ok().as_ref().map(validity_of)
}

/// `None` for bytes that are no certificate, or one whose names cannot be read: such a client has no name.
pub(super) fn read(der: &[u8]) -> Option<PeerCertificate> {
    let certificate = Certificate::from_der(der).ok()?;
    let subject = certificate.tbs_certificate().subject();
    let names = certificate.tbs_certificate().get_extension::<SubjectAltName>().ok()?;
    let sans = names.into_iter().flat_map(|(_, SubjectAltName(names))| names).filter_map(|name| match name {
        GeneralName::DnsName(name) | GeneralName::Rfc822Name(name) | GeneralName::UniformResourceIdentifier(name) => {
            Some(name.as_str().to_owned())
        }
        _ => None,
    });
    Some(PeerCertificate {
        common_name: common_name(subject),
        subject: subject.to_string(),
        sans: sans.collect(),
        not_after_s: validity_of(&certificate).not_after_s,
    })
}

/// The only one. With two, each might name a different principal.
fn common_name(subject: &Name) -> Option<String> {
    let mut common_names = subject.iter().filter(|attribute| attribute.oid == COMMON_NAME);
    let only = common_names.next().filter(|_| common_names.next().is_none())?;
    DirectoryString::try_from(&only.value).ok().map(String::from)
}

fn validity_of(certificate: &Certificate) -> Validity {
    let validity = certificate.tbs_certificate().validity();
    Validity {
        not_before_s: validity.not_before.to_unix_duration().as_secs(),
        not_after_s: validity.not_after.to_unix_duration().as_secs(),
    }
}

#[cfg(test)]
mod tests {
    use rcgen::string::Ia5String;
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};

    use super::*;

    fn read_from(subject: &[(DnType, &str)], sans: Vec<SanType>) -> PeerCertificate {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        for (kind, text) in subject {
            params.distinguished_name.push(kind.clone(), *text);
        }
        params.subject_alt_names = sans;
        read(params.self_signed(&KeyPair::generate().unwrap()).unwrap().der()).unwrap()
    }

    #[test]
    fn subject_and_alternative_names_are_read() {
        let ia5 = |text: &str| Ia5String::try_from(text).unwrap();
        let sans = vec![
            SanType::IpAddress([127, 0, 0, 1].into()),
            SanType::URI(ia5("spiffe://example.org/ci")),
            SanType::DnsName(ia5("ci.example.org")),
            SanType::Rfc822Name(ia5("ci@example.org")),
        ];
        let certificate = read_from(
            &[(DnType::CountryName, "CH"), (DnType::OrganizationName, "Example"), (DnType::CommonName, "Zoë, ci")],
            sans,
        );
        assert_eq!(certificate.common_name.as_deref(), Some("Zoë, ci"));
        assert_eq!(certificate.subject, "CN=Zoë\\, ci,O=Example,C=CH", "as RFC 4514 writes it");
        assert_eq!(certificate.sans, ["spiffe://example.org/ci", "ci.example.org", "ci@example.org"]);
        assert_eq!(certificate.not_after_s, 67_090_118_400, "rcgen's default, the year 4096");
    }

    #[test]
    fn what_is_not_there_is_not_made_up() {
        let certificate = read_from(&[(DnType::OrganizationName, "Example")], Vec::new());
        assert_eq!((certificate.common_name, certificate.sans), (None, Vec::new()));
        assert_eq!(read(b"nonsense"), None);
        assert_eq!(validity(b""), None);
    }

    #[test]
    fn of_two_common_names_neither_counts() {
        let other = DnType::CustomDnType(vec![2, 5, 4, 3]);
        let certificate = read_from(&[(DnType::CommonName, "a"), (other, "b")], Vec::new());
        assert_eq!((certificate.common_name, &*certificate.subject), (None, "CN=b,CN=a"));
    }
}
