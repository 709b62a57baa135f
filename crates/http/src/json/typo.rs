//! Members of a body that are written nearly like a known one. Pools ignore members that they do not know, as existing
//! clients may send more; a caller that wrote `wiat` should learn of it all the same.

use super::shown;

/// Unknown members that are looked at, at most.
const LOOKED_AT_MAX: usize = 8;
/// A longer name is like none of ours.
const NAME_MAX: usize = 16;

/// A sentence about the first such member.
pub(super) fn find<'a>(names: impl Iterator<Item = &'a str>, known: &[&'static str]) -> Option<String> {
    let unknown = names.filter(|name| !known.contains(name)).take(LOOKED_AT_MAX);
    let mut typos = unknown.filter(|name| (2..=NAME_MAX).contains(&name.len()));
    typos.find_map(|name| {
        let meant = known.iter().find(|known| is_near(name, known))?;
        Some(format!("{} is ignored, {meant} may be meant", shown(name)))
    })
}

/// One letter too many, too few, another, or two that changed places; in whatever case.
fn is_near(name: &str, known: &str) -> bool {
    let (name, known) = (name.to_ascii_lowercase(), known.to_ascii_lowercase());
    let (name, known) = (name.as_bytes(), known.as_bytes());
    let same_start = name.iter().zip(known).take_while(|(a, b)| a == b).count();
    let same_end = name.iter().rev().zip(known.iter().rev()).take_while(|(a, b)| a == b).count();
    let (longer, shorter) = (name.len().max(known.len()), name.len().min(known.len()));
    if longer - shorter > 1 {
        return false;
    }
    if same_start + same_end + 1 >= longer {
        return true;
    }
    let is_swapped = || {
        let (a, b) = (&name[same_start..same_start + 2], &known[same_start..same_start + 2]);
        a[0] == b[1] && a[1] == b[0]
    };
    longer == shorter && same_start + same_end + 2 == longer && is_swapped()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_told_from_another_word() {
        const KNOWN: [&str; 4] = ["ttl", "wait", "keep", "holder"];
        for (name, meant) in [
            ("wiat", Some("wait")),
            ("wai", Some("wait")),
            ("waits", Some("wait")),
            ("want", Some("wait")),
            ("Wait", Some("wait")),
            ("tll", Some("ttl")),
            ("tlt", Some("ttl")),
            ("hodler", Some("holder")),
            ("wait", None),
            ("w", None),
            ("count", None),
            ("weight", None),
            ("aitw", None),
            ("t", None),
            ("\u{1f512}", None),
        ] {
            let expected = meant.map(|meant| format!("\"{name}\" is ignored, {meant} may be meant"));
            assert_eq!(find([name].into_iter(), &KNOWN), expected, "{name}");
        }
        let many = vec!["x1234"; 9];
        assert_eq!(find(many.into_iter().chain(["wiat"]), &KNOWN), None, "only the first are looked at");
    }
}
