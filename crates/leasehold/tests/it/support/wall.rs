//! The wall clock of a process under test, faked with libfaketime; its monotonic clock is left alone.

use std::path::{Path, PathBuf};

use super::Launch;

/// The offset of a process's wall clock from the right time.
#[derive(Debug)]
pub(crate) struct FakeWall {
    file: PathBuf,
}

impl FakeWall {
    /// A clock that is right, kept in a file of this directory.
    pub(crate) fn new(directory: &Path, name: &str) -> FakeWall {
        let clock = FakeWall { file: directory.join(name) };
        clock.set(0);
        clock
    }

    /// In one step, so that the process never reads half of it.
    pub(crate) fn set(&self, offset_s: i64) {
        let draft = self.file.with_extension("draft");
        std::fs::write(&draft, format!("{offset_s:+}s")).unwrap();
        std::fs::rename(&draft, &self.file).unwrap();
    }

    /// A process that is started so has this clock.
    pub(crate) fn govern(&self, launch: Launch) -> Launch {
        launch
            .env("LD_PRELOAD", libfaketime())
            .env("FAKETIME_TIMESTAMP_FILE", &self.file)
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
    }
}

fn libfaketime() -> PathBuf {
    let architectures = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten().map(|entry| entry.path());
    let mut places = architectures.chain([PathBuf::from("/usr/lib"), PathBuf::from("/usr/local/lib")]);
    let found = places.find_map(|place| {
        let library = place.join("faketime/libfaketime.so.1");
        Path::exists(&library).then_some(library)
    });
    found.expect("libfaketime is not installed: scripts/need.sh installs it, on Debian it is the package faketime")
}
