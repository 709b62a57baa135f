//! TLS while serving: the files are read at the start, again on SIGHUP, and again by themselves when their content
//! changes, so that a tool that renews a certificate need not know of us. Files that make no sense (one of two may have
//! been written) are reported, and the certificate in force stays.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use leasehold_auth::secret::Digest;
use leasehold_server::Observer;
use leasehold_server::http::{Clients, Material, Pem, Tls, TlsFile};

use crate::config::{ConfigError, NamedFile, TlsFiles};

/// Between two looks at the files.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// The certificate in force and the files it came from.
#[derive(Debug)]
pub(crate) struct Keeper {
    tls: Arc<Tls>,
    observer: Arc<Observer>,
    watched: Mutex<Watched>,
}

#[derive(Clone, Debug)]
struct Watched {
    files: TlsFiles,
    /// The content at the last attempt, successful or not.
    tried: Seen,
    /// The digest of the files in force.
    in_force: Digest,
    /// The content at the last look, if it was new. It is tried when it is the same at the next look: files are not
    /// written at once, and not all at once.
    new: Option<Seen>,
}

/// The digest of the files, or why they cannot be read.
type Seen = Result<Digest, ConfigError>;

/// The content of the files.
struct Texts {
    cert: Vec<u8>,
    key: Vec<u8>,
    ca: Option<Vec<u8>>,
    crl: Option<Vec<u8>>,
}

/// Files that were read and make sense, to be served with.
pub(crate) struct Fresh {
    material: Material,
    watched: Watched,
}

impl Keeper {
    /// The certificate a server starts with.
    pub(crate) fn start(files: &TlsFiles, observer: &Arc<Observer>) -> Result<Keeper, ConfigError> {
        let Fresh { material, watched } = read(files)?;
        say_how_long(&material);
        say_if_exposed(&files.key);
        observer.certificate_ends(material.not_after_s);
        let tls = Arc::new(Tls::new(material));
        Ok(Keeper { tls, observer: Arc::clone(observer), watched: Mutex::new(watched) })
    }

    pub(crate) fn tls(&self) -> &Arc<Tls> {
        &self.tls
    }

    /// From the next connection on.
    pub(crate) fn replace(&self, Fresh { material, watched }: Fresh) {
        self.install(material, &mut self.watched(), watched);
    }

    fn install(&self, material: Material, watched: &mut Watched, after: Watched) {
        say_how_long(&material);
        say_if_exposed(&after.files.key);
        self.observer.certificate_ends(material.not_after_s);
        self.tls.replace(material);
        *watched = after;
    }

    /// Looks at the files now and then, for as long as it is polled.
    pub(crate) async fn watch(self: Arc<Self>) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let keeper = Arc::clone(&self);
            // A file may be on something slow.
            if tokio::task::spawn_blocking(move || keeper.look()).await.is_err() {
                tracing::error!("the check for a new certificate failed; SIGHUP reads the files again");
            }
        }
    }

    fn look(&self) {
        let before = self.watched().clone();
        let texts = Texts::read(&before.files);
        let seen = texts.as_ref().map(Texts::digest).map_err(Clone::clone);
        let is_known = seen == before.tried || seen == Ok(before.in_force);
        let is_settled = before.new.as_ref() == Some(&seen);
        let tried = (!is_known && is_settled)
            .then(|| texts.and_then(|texts| Ok((texts.material(&before.files)?, texts.digest()))));
        let mut watched = self.watched();
        if watched.files != before.files || watched.in_force != before.in_force {
            // SIGHUP came in between, and has read them itself.
            return;
        }
        match tried {
            None if is_known => (watched.tried, watched.new) = (seen, None),
            None => watched.new = Some(seen),
            Some(Ok((material, in_force))) => {
                self.install(material, &mut watched, Watched { tried: seen, in_force, new: None, ..before });
                tracing::info!("the certificate has changed; new connections get the new one");
            }
            Some(Err(error)) => {
                tracing::warn!("the certificate has changed and cannot be used, the one before stays: {error}");
                (watched.tried, watched.new) = (seen, None);
            }
        }
    }

    fn watched(&self) -> std::sync::MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the files, or returns which is wrong and why.
pub(crate) fn read(files: &TlsFiles) -> Result<Fresh, ConfigError> {
    let texts = Texts::read(files)?;
    let digest = texts.digest();
    let watched = Watched { files: files.clone(), tried: Ok(digest), in_force: digest, new: None };
    Ok(Fresh { material: texts.material(files)?, watched })
}

impl Texts {
    fn read(files: &TlsFiles) -> Result<Texts, ConfigError> {
        let read = |file: &NamedFile| {
            std::fs::read(&file.path).map_err(|error| file.wrong(format_args!("could not be read: {error}")))
        };
        Ok(Texts {
            cert: read(&files.cert)?,
            key: read(&files.key)?,
            ca: files.clients.as_ref().map(|clients| read(&clients.ca)).transpose()?,
            crl: files.clients.as_ref().and_then(|clients| clients.crl.as_ref()).map(read).transpose()?,
        })
    }

    fn material(&self, files: &TlsFiles) -> Result<Material, ConfigError> {
        let clients = self.ca.as_deref().zip(files.clients.as_ref());
        let clients =
            clients.map(|(ca, files)| Clients { ca, crl: self.crl.as_deref(), is_required: files.is_required });
        Material::read(&Pem { cert: &self.cert, key: &self.key, clients }).map_err(|error| {
            let file = match (error.file, &files.clients) {
                (TlsFile::Key, _) => &files.key,
                (TlsFile::ClientCa, Some(clients)) => &clients.ca,
                (TlsFile::ClientCrl, Some(clients)) => clients.crl.as_ref().unwrap_or(&clients.ca),
                (TlsFile::Cert | TlsFile::ClientCa | TlsFile::ClientCrl, _) => &files.cert,
            };
            file.wrong(error)
        })
    }

    /// A digest of all of them, each with its length in front: bytes that move from one to another are a change. Only
    /// this is kept, so that the key is in memory once.
    fn digest(&self) -> Digest {
        let mut all = Vec::new();
        for text in [Some(&self.cert), Some(&self.key), self.ca.as_ref(), self.crl.as_ref()].into_iter().flatten() {
            all.extend_from_slice(&text.len().to_le_bytes());
            all.extend_from_slice(text);
        }
        Digest::of(&all)
    }
}

/// A certificate that some callers will not accept is worth a warning, and no reason not to serve the others.
fn say_how_long(material: &Material) {
    let now_s = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let shown = |unix_s: u64| {
        let time = i64::try_from(unix_s).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
        time.map_or_else(|| "the end of time".to_owned(), |time| time.to_string())
    };
    let Material { not_before_s, not_after_s, .. } = *material;
    if now_s > not_after_s {
        tracing::warn!("the certificate in tls_cert expired at {}; callers will refuse it", shown(not_after_s));
    } else if now_s < not_before_s {
        tracing::warn!("the certificate in tls_cert is valid only from {} on", shown(not_before_s));
    } else {
        tracing::debug!("the certificate in tls_cert is valid until {}", shown(not_after_s));
    }
}

/// A key that every user of the machine can read is worth a warning. A group may: some systems keep one for that.
fn say_if_exposed(key: &NamedFile) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let Ok(mode) = std::fs::metadata(&key.path).map(|found| found.permissions().mode()) else { return };
        if mode & 0o007 != 0 {
            let path = key.path.display();
            tracing::warn!("the key in tls_key is open to every user of this machine: chmod o= {path}");
        }
    }
}
