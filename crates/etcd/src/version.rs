//! Which releases of etcd may keep a journal. Earlier ones lose acknowledged writes or let members differ.

use std::fmt;

/// The first sound patch of each minor release.
const SOUND: [(u64, u64, u64); 2] = [(3, 4, 22), (3, 5, 6)];

/// The version of a member, as its status says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version {
    major: u64,
    minor: u64,
    patch: u64,
}

impl Version {
    /// `3.5.6`, `3.5.6-rc.1+git`. A version that cannot be read is no version.
    pub(crate) fn parse(text: &str) -> Option<Version> {
        let plain = text.split(['-', '+']).next()?;
        let mut parts = plain.split('.').map(|part| part.parse::<u64>().ok());
        let (major, minor, patch) = (parts.next()??, parts.next()??, parts.next().unwrap_or(Some(0))?);
        parts.next().is_none().then_some(Version { major, minor, patch })
    }

    /// A release candidate counts as its release, and a minor release that came later than all in the table is sound.
    pub(crate) fn is_sound(self) -> bool {
        let Version { major, minor, patch } = self;
        match SOUND.iter().find(|(sound_major, sound_minor, _)| (major, minor) == (*sound_major, *sound_minor)) {
            Some((_, _, sound_patch)) => patch >= *sound_patch,
            None => (major, minor) > (SOUND[SOUND.len() - 1].0, SOUND[SOUND.len() - 1].1),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_sound_patch_of_each_release_is_sound_and_the_one_before_is_not() {
        for (text, is_sound) in [
            ("3.4.21", false),
            ("3.4.22", true),
            ("3.4.23", true),
            ("3.5.0", false),
            ("3.5.5", false),
            ("3.5.6", true),
            ("3.5.6-rc.0", true),
            ("3.3.99", false),
            ("2.9.9", false),
            ("3.6.0", true),
            ("3.7.1+git", true),
            ("4.0", true),
        ] {
            let version = Version::parse(text).unwrap_or_else(|| panic!("{text} is a version"));
            assert_eq!(version.is_sound(), is_sound, "{text}");
        }
        for text in ["", "three", "3", "3.x.1", "3.4.22.1", "3..1"] {
            assert_eq!(Version::parse(text), None, "{text}");
        }
    }
}
