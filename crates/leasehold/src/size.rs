//! Sizes in bytes as operators write them (`512MiB`, `2GB`, `16KiB`, `65536`), and back.

const UNITS: [(&str, u64); 10] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("KB", 1_000),
    ("B", 1),
];

/// Reads a size. The error describes the problem in words that follow the value.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    if number.is_empty() {
        return Err("is not a size, write one such as 512MiB, 2GB or 65536".to_owned());
    }
    let worth = match unit.trim_start() {
        "" => 1,
        unit => UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .map(|&(_, worth)| worth)
            .ok_or("has an unknown unit, use one of KiB, MiB, GiB, TiB, kB, MB, GB, TB")?,
    };
    number.parse::<u64>().ok().and_then(|number| number.checked_mul(worth)).ok_or_else(|| "is too large".to_owned())
}

/// Writes a size so that [`parse`] reads the same: in the largest unit that it is a whole number of.
pub(crate) fn format(bytes: u64) -> String {
    let fits = |&&(name, worth): &&(&str, u64)| name.len() == 3 && bytes >= worth && bytes.is_multiple_of(worth);
    match UNITS.iter().find(fits) {
        Some((name, worth)) => format!("{}{name}", bytes / worth),
        None => bytes.to_string(),
    }
}

/// Rounded, for people: `1.5 MiB`.
pub(crate) fn rounded(bytes: u64) -> String {
    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;
    match bytes {
        0..KIB => format!("{bytes} bytes"),
        KIB..MIB => format!("{}.{} KiB", bytes / KIB, bytes % KIB * 10 / KIB),
        MIB.. => format!("{}.{} MiB", bytes / MIB, bytes % MIB * 10 / MIB),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_they_are_written() {
        for (text, bytes, again) in [
            ("0", 0, "0"),
            ("65536", 65_536, "64KiB"),
            ("16KiB", 16_384, "16KiB"),
            ("512 MiB", 512 << 20, "512MiB"),
            ("2GB", 2_000_000_000, "1953125KiB"),
            ("1TiB", 1 << 40, "1TiB"),
            ("1025", 1025, "1025"),
            ("7B", 7, "7"),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
            assert_eq!(format(bytes), again);
            assert_eq!(parse(&format(bytes)), Ok(bytes));
        }
        for text in ["", "MiB", "-1", "1.5GiB", "1mib", "1 Gi", "99999999999999999999", "18014398509481984KiB"] {
            assert!(parse(text).is_err(), "{text}");
        }
        for (bytes, shown) in [(0, "0 bytes"), (1023, "1023 bytes"), (1536, "1.5 KiB"), ((5 << 20) + 1, "5.0 MiB")] {
            assert_eq!(rounded(bytes), shown);
        }
    }
}
