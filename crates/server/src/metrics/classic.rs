//! The exposition for scrapers that do not ask for OpenMetrics: Prometheus' older text format, made of the newer one.
//! It has no units, no end mark and no `info`, and calls a counter by the name of its samples.

use std::fmt::Write as _;

use http::header::{ACCEPT, HeaderMap};

pub(crate) const OPENMETRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
pub(crate) const CLASSIC_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Returns whether the scraper reads OpenMetrics. Prometheus says so; curl does not and gets the format that every tool
/// reads.
pub(crate) fn accepts_openmetrics(headers: &HeaderMap) -> bool {
    let mut accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.any(|value| value.contains("application/openmetrics-text"))
}

/// OpenMetrics in, the older format out.
pub(crate) fn classic(openmetrics: &str) -> String {
    let mut text = String::with_capacity(openmetrics.len());
    // HELP comes before TYPE, and needs the name that only TYPE tells.
    let mut help = None;
    for line in openmetrics.lines() {
        let comment = line.strip_prefix("# ").and_then(|rest| rest.split_once(' '));
        match comment {
            Some(("HELP", rest)) => help = rest.split_once(' '),
            Some(("TYPE", rest)) => {
                let (name, kind) = rest.split_once(' ').expect("a type line has a name and a type");
                let (suffix, kind) = match kind {
                    "counter" => ("_total", kind),
                    "info" => ("_info", "gauge"),
                    _ => ("", kind),
                };
                if let Some((_, help)) = help.take() {
                    let _ = writeln!(text, "# HELP {name}{suffix} {help}");
                }
                let _ = writeln!(text, "# TYPE {name}{suffix} {kind}");
            }
            Some(_) => {}
            None if line == "# EOF" => {}
            None => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_and_infos_get_the_names_of_their_samples() {
        let openmetrics = "# HELP a_bytes Bytes.\n# TYPE a_bytes counter\n# UNIT a_bytes bytes\na_bytes_total 1\n\
                           # HELP b Who.\n# TYPE b info\nb_info{v=\"1\"} 1\n\
                           # HELP c C.\n# TYPE c gauge\nc{k=\"x\"} 2\n# EOF\n";
        let expected = "# HELP a_bytes_total Bytes.\n# TYPE a_bytes_total counter\na_bytes_total 1\n\
                        # HELP b_info Who.\n# TYPE b_info gauge\nb_info{v=\"1\"} 1\n\
                        # HELP c C.\n# TYPE c gauge\nc{k=\"x\"} 2\n";
        assert_eq!(classic(openmetrics), expected);
    }
}
