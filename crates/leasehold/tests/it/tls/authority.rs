//! A private certificate authority, and the files a server and its clients get from it.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber,
    date_time_ymd,
};

use crate::support::Launch;

/// A certificate authority.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, as PEM.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub(crate) cert: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new() -> Authority {
        let mut params = CertificateParams::default();
        // Authorities of the same name and different keys confuse some clients.
        params.distinguished_name.push(DnType::CommonName, format!("Authority {:x}", rand::random::<u64>()));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// For `localhost` and 127.0.0.1.
    pub(crate) fn server(&self) -> Pair {
        let names = ["localhost", "127.0.0.1"].map(str::to_owned);
        let mut params = CertificateParams::new(names).unwrap();
        params.insert_extended_key_usage(ExtendedKeyUsagePurpose::ServerAuth);
        self.issue(&params)
    }

    pub(crate) fn client(&self, common_name: &str) -> Pair {
        self.issue(&client_params(common_name))
    }

    /// One that was good until the end of 2020.
    pub(crate) fn expired_client(&self, common_name: &str) -> Pair {
        let mut params = client_params(common_name);
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2020, 12, 31);
        self.issue(&params)
    }

    pub(crate) fn expired_server(&self) -> Pair {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2020, 12, 31);
        self.issue(&params)
    }

    /// The list of certificates that this authority revoked, good from the beginning of 2020 to the end of a year.
    pub(crate) fn revocations(&self, revoked: &[u64], until_year: i32) -> String {
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 1),
            next_update: date_time_ymd(until_year, 12, 31),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked
                .iter()
                .map(|&serial| RevokedCertParams {
                    serial_number: SerialNumber::from(serial),
                    revocation_time: date_time_ymd(2021, 1, 1),
                    reason_code: None,
                    invalidity_date: None,
                })
                .collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        params.signed_by(&self.0).unwrap().pem().unwrap()
    }

    /// One that can be named in a list.
    pub(crate) fn numbered_client(&self, common_name: &str, serial: u64) -> Pair {
        let mut params = client_params(common_name);
        params.serial_number = Some(SerialNumber::from(serial));
        self.issue(&params)
    }

    fn issue(&self, params: &CertificateParams) -> Pair {
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &self.0).unwrap();
        Pair { cert: cert.pem(), key: key.serialize_pem() }
    }
}

fn client_params(common_name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(vec![format!("{common_name}.example.org")]).unwrap();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "Example");
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.insert_extended_key_usage(ExtendedKeyUsagePurpose::ClientAuth);
    params
}

impl Pair {
    /// As `NAME.pem` and `NAME.key`.
    pub(crate) fn write(&self, directory: &Path, name: &str) -> [PathBuf; 2] {
        let paths = ["pem", "key"].map(|ending| directory.join(format!("{name}.{ending}")));
        std::fs::write(&paths[0], &self.cert).unwrap();
        std::fs::write(&paths[1], &self.key).unwrap();
        paths
    }
}

/// A server with `server.pem` and `server.key` of this directory, and `leasehold.toml` if it is there.
pub(crate) fn launch(directory: &Path) -> Launch {
    let launch = Launch::on(&directory.join("data")).within(directory);
    let launch = launch.arg("--tls-cert").arg("server.pem").arg("--tls-key").arg("server.key");
    if directory.join("leasehold.toml").exists() { launch.arg("--config").arg("leasehold.toml") } else { launch }
}
