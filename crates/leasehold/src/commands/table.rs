//! Columns for people: as wide as their widest cell, a colour here and there on a terminal.

use std::fmt::Write as _;
use std::io::IsTerminal as _;

use leasehold_client::text::printable;

/// Rows under a head.
pub(crate) struct Table {
    head: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(head: &[&'static str]) -> Table {
        Table { head: head.to_vec(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.head.len());
        self.rows.push(cells.into_iter().map(|cell| printable(&cell)).collect());
    }

    pub(crate) fn print(&self) {
        out!("{}", self.render(is_coloured()));
    }

    fn render(&self, is_coloured: bool) -> String {
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| row[column].chars().count());
            cells.chain([self.head[column].len()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let mut text = String::new();
        let mut line = |cells: Vec<&str>, is_head: bool| {
            let mut row = String::new();
            for (column, cell) in cells.iter().enumerate() {
                let padding = " ".repeat(widths[column] - cell.chars().count());
                let cell = if is_coloured { paint(cell, is_head) } else { (*cell).to_owned() };
                let _ = write!(row, "{cell}{padding}  ");
            }
            text.push_str(row.trim_end());
            text.push('\n');
        };
        line(self.head.clone(), true);
        for row in &self.rows {
            line(row.iter().map(String::as_str).collect(), false);
        }
        text
    }
}

/// Colours only on a terminal, and never with `NO_COLOR`.
pub(super) fn is_coloured() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

fn paint(cell: &str, is_head: bool) -> String {
    let code = match cell {
        _ if is_head => "1",
        "contended" | "grace" | "expired" | "revoked" | "lost" | "failed" => "33",
        "held" | "granted" | "ok" => "32",
        "free" | "lapsed" => "2",
        _ => return cell.to_owned(),
    };
    format!("\x1b[{code}m{cell}\x1b[0m")
}

/// A span in seconds, short.
pub(super) fn span(seconds: Option<f64>) -> String {
    match seconds {
        None => "-".to_owned(),
        Some(seconds) if seconds < 10.0 => format!("{seconds:.1}s"),
        Some(seconds) => {
            let millis = std::time::Duration::from_secs_f64(seconds.clamp(0.0, 1e12).round());
            leasehold_server::duration::format_us(u64::try_from(millis.as_micros()).unwrap_or(u64::MAX))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_they_need_to_be() {
        let mut table = Table::new(&["KEY", "STATE"]);
        table.row(vec!["lock:ünïcode".into(), "held".into()]);
        table.row(vec!["a\x1b[31m\n".into(), "free".into()]);
        assert_eq!(table.render(false), "KEY           STATE\nlock:ünïcode  held\na\u{fffd}[31m\u{fffd}       free\n");
        assert!(table.render(true).contains("\x1b[32mheld\x1b[0m"));
    }

    #[test]
    fn spans_are_short() {
        assert_eq!([span(None), span(Some(0.25)), span(Some(9.99)), span(Some(90.2))], ["-", "0.2s", "10.0s", "1m30s"]);
    }
}
