//! Where a reader is in the histories of the partitions it reads: the value of `Last-Event-ID`. With one partition it
//! is the id of the last event, `3.41`; with several the same for each of them, `0:3.41,1:3.77`, as in the header
//! `Leasehold-Positions`.

use std::fmt;

use super::ring::EventId;
use crate::driver::Stamp;

/// The place in the history of one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventPlace {
    /// Named where there are several.
    pub(crate) partition: Option<u32>,
    pub(crate) id: EventId,
}

impl EventPlace {
    /// `3.41` or `1:3.41`.
    fn parse(text: &str) -> Option<EventPlace> {
        let Some((partition, id)) = text.split_once(':') else {
            return Some(EventPlace { partition: None, id: EventId::parse(text)? });
        };
        let partition = partition.parse().ok().filter(|_| partition.bytes().all(|byte| byte.is_ascii_digit()))?;
        Some(EventPlace { partition: Some(partition), id: EventId::parse(id)? })
    }
}

impl From<Stamp> for EventPlace {
    fn from(Stamp { partition, epoch, position }: Stamp) -> EventPlace {
        EventPlace { partition: Some(partition), id: EventId { epoch, position } }
    }
}

impl fmt::Display for EventPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.partition {
            Some(partition) => write!(f, "{partition}:{}", self.id),
            None => write!(f, "{}", self.id),
        }
    }
}

/// A mark in each partition that is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bookmark(pub(crate) Vec<EventPlace>);

impl Bookmark {
    pub(crate) fn parse(text: &str) -> Option<Bookmark> {
        text.split(',').map(EventPlace::parse).collect::<Option<Vec<_>>>().map(Bookmark)
    }

    /// The place in this partition, if the bookmark has one there.
    pub(crate) fn in_partition(&self, partition: Option<u32>) -> Option<EventId> {
        self.0.iter().find(|mark| mark.partition == partition).map(|mark| mark.id)
    }
}

impl fmt::Display for Bookmark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, mark) in self.0.iter().enumerate() {
            let comma = if nth == 0 { "" } else { "," };
            write!(f, "{comma}{mark}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bookmarks_are_read_as_they_are_written() {
        for text in ["3.42", "5:3.42", "0:3.42,1:1.0,7:18446744073709551615.9"] {
            assert_eq!(Bookmark::parse(text).unwrap().to_string(), text);
        }
        for text in ["", ",", "3.42,", "a:3.42", "+1:3.42", ":3.42", "1:", "1:3", "4294967296:3.42", "1:2:3.4"] {
            assert_eq!(Bookmark::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_place_is_found_by_its_partition() {
        let several = Bookmark::parse("0:3.42,5:1.7").unwrap();
        assert_eq!(several.in_partition(Some(5)), EventId::parse("1.7"));
        assert_eq!(several.in_partition(Some(4)), None);
        assert_eq!(several.in_partition(None), None, "it is of a service with several");
        assert_eq!(Bookmark::parse("3.42").unwrap().in_partition(None), EventId::parse("3.42"));
    }
}
