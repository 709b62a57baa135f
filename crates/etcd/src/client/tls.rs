//! The certificates that are trusted, and the one that is shown.

use std::sync::Arc;

use leasehold_dial::{TlsFiles, tls_config};
use rustls::ClientConfig;

use crate::error::EtcdRefusal;

/// HTTP/2, which gRPC needs.
const ALPN: &[u8] = b"h2";

pub(super) fn load(files: &TlsFiles) -> Result<Arc<ClientConfig>, EtcdRefusal> {
    let mut config = tls_config(files).map_err(|error| EtcdRefusal::Setting(error.to_string()))?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(Arc::new(config))
}
