//! Tables in Markdown: aims and results first, then all figures.

use std::fmt::Write as _;

use super::Report;
use super::aims::{Aim, Bound};
use crate::figures::{Figures, Spread};

/// A table whose columns are as wide as their content.
struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    fn new(head: &[&str]) -> Self {
        Table { rows: vec![head.iter().map(ToString::to_string).collect()] }
    }

    fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.rows[0].len(), "every row has every column");
        self.rows.push(cells);
    }

    /// The first column is text, the others are numbers.
    fn render(&self, title: &str, out: &mut String) {
        if self.rows.len() == 1 {
            return;
        }
        let columns = self.rows[0].len();
        let widths: Vec<usize> = (0..columns)
            .map(|column| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
            .collect();
        let _ = writeln!(out, "\n### {title}\n");
        for (index, row) in self.rows.iter().enumerate() {
            for (column, cell) in row.iter().enumerate() {
                let width = widths[column];
                let _ = if column == 0 { write!(out, "| {cell:<width$} ") } else { write!(out, "| {cell:>width$} ") };
            }
            out.push_str("|\n");
            if index == 0 {
                for (column, width) in widths.iter().enumerate() {
                    let _ = write!(out, "|{}{}", "-".repeat(width + 1), if column == 0 { "-" } else { ":" });
                }
                out.push_str("|\n");
            }
        }
    }
}

fn rate(per_s: f64) -> String {
    format!("{per_s:.0}")
}

/// Microseconds, or milliseconds where those are many.
fn time(us: f64) -> String {
    if us < 10_000.0 { format!("{us:.0} µs") } else { format!("{:.1} ms", us / 1e3) }
}

fn times(latency: &Spread) -> [String; 3] {
    [time(latency.p50_us), time(latency.p99_us), time(latency.p999_us)]
}

fn amount(value: f64, unit: &str) -> String {
    let digits = if value.abs() < 20.0 { 2 } else { 0 };
    format!("{value:.digits$}{unit}")
}

pub(super) fn render(report: &Report, aims: &[Aim]) -> String {
    let mut out = String::new();
    if report.quick {
        out.push_str("A quick run: it shows that everything works. Its figures are too short to compare.\n");
    }
    if report.machine.is_busy() {
        let _ = writeln!(
            out,
            "This machine was {:.0} % busy with other things before the run began: no figure here is worth comparing.",
            report.machine.busy_before * 100.0
        );
    }
    ratios(report.quick, aims, &mut out);
    throughput(report, &mut out);
    latency(report, &mut out);
    ours(report, &mut out);
    growth(report, &mut out);
    machine(report, &mut out);
    out
}

fn ratios(quick: bool, aims: &[Aim], out: &mut String) {
    let mut table = Table::new(&["Ratios and aims", "measured", "aim", ""]);
    for aim in aims {
        let bound = match aim.bound {
            Bound::AtLeast(least) => format!("≥ {}", amount(least, aim.unit)),
            Bound::AtMost(most) => format!("≤ {}", amount(most, aim.unit)),
        };
        let verdict = match aim.met() {
            // Other sizes than those of the aim, and a fraction of a second.
            Some(_) if quick => "not judged",
            Some(true) => "met",
            Some(false) => "missed",
            None => "not run",
        };
        let measured = aim.measured.map_or("–".to_owned(), |value| amount(value, aim.unit));
        table.row(vec![aim.what.clone(), measured, bound, verdict.to_owned()]);
    }
    table.render("Ratios", out);
}

fn throughput(report: &Report, out: &mut String) {
    let head =
        ["Borrow + return, closed loop", "connections", "requests/s", "p50", "p99", "p99.9", "its CPU", "generator's"];
    let mut table = Table::new(&head);
    for row in report.throughput.iter().chain(&report.clusters) {
        let mut cells = figures(row.peer.label(), row.connections.to_string(), &row.figures);
        cells.extend([row.peer_cpu_us, row.generator_cpu_us].map(|us| format!("{us:.1} µs")));
        table.row(cells);
    }
    table.render("Throughput", out);
    let head = ["Borrow + return, 256 callers", "connections", "requests/s", "p50", "p99", "p99.9"];
    let mut table = Table::new(&head);
    for row in &report.http2 {
        let label = if row.connections == row.callers {
            row.peer.label().to_owned()
        } else {
            format!("{}, HTTP/2", row.peer.label())
        };
        table.row(figures(&label, row.connections.to_string(), &row.figures));
    }
    table.render("HTTP/2", out);
}

fn figures(label: &str, what: String, figures: &Figures) -> Vec<String> {
    let mut cells = vec![label.to_owned(), what, rate(figures.rate_per_s)];
    cells.extend(times(&figures.latency));
    cells
}

fn latency(report: &Report, out: &mut String) {
    let head = ["Borrow + return, open loop, 64 connections", "offered/s", "answered/s", "p50", "p99", "p99.9"];
    let mut table = Table::new(&head);
    for point in &report.latency {
        let mut cells = vec![point.peer.label().to_owned(), rate(point.offered_per_s), rate(point.answered_per_s)];
        cells.extend(times(&point.latency));
        table.row(cells);
    }
    table.render("Latency against load", out);
}

fn ours(report: &Report, out: &mut String) {
    let mut table = Table::new(&["Workload", "a second", "p50", "p99", "p99.9"]);
    for row in &report.hand_over {
        let label = format!("{}: hand-over, 8 slots, 64 waiters, held {} ms", row.peer.label(), row.hold_ms);
        let mut cells = vec![label, rate(row.hand_overs_per_s)];
        cells.extend(times(&row.latency));
        table.row(cells);
    }
    for row in &report.claims {
        let mut cells = vec![
            format!("{}: requests of claims ({:.0} % waited)", row.peer.label(), row.waited_share * 100.0),
            rate(row.requests.rate_per_s),
        ];
        cells.extend(times(&row.requests.latency));
        table.row(cells);
        let active = format!("{}: claims that became active", row.peer.label());
        table.row(vec![active, rate(row.activations_per_s), String::new(), String::new(), String::new()]);
    }
    for row in &report.lock {
        let mut cells = vec![format!("{}: lock renewals", row.peer.label()), rate(row.figures.rate_per_s)];
        cells.extend(times(&row.figures.latency));
        table.row(cells);
    }
    table.render("What only Leasehold does", out);
}

fn growth(report: &Report, out: &mut String) {
    if let Some(scale) = &report.scale {
        let head = ["Live leases", "bytes a lease", "resident", "made/s", "renewals/s", "p50", "p99", "p99.9"];
        let mut table = Table::new(&head);
        for row in &scale.sizes {
            let mut cells = vec![row.leases.to_string(), format!("{:.0}", row.resident_bytes_per_lease)];
            cells.push(format!("{:.0} MiB", row.resident_mib));
            cells.extend([rate(row.made_per_s), rate(row.renewals.rate_per_s)]);
            cells.extend(times(&row.renewals.latency));
            table.row(cells);
        }
        table.render("How cost grows", out);
    }
    let mut table = Table::new(&["With the most leases, or callers", ""]);
    let mut row = |what: String, value: String| table.row(vec![what, value]);
    if let Some(scale) = &report.scale {
        row(
            format!("lateness of {} expiries, p50", scale.lateness.expired),
            format!("{:.2} ms", scale.lateness.p50_ms),
        );
        row("the same, p99.9".to_owned(), format!("{:.2} ms", scale.lateness.p999_ms));
        match &scale.checkpoint {
            Some(checkpoint) => {
                row(
                    "checkpoint".to_owned(),
                    format!("{:.1} MiB", crate::figures::float(checkpoint.bytes) / 1_048_576.0),
                );
                row("it took".to_owned(), format!("{:.0} ms", checkpoint.took_ms));
                row("longest pause meanwhile".to_owned(), format!("{:.1} ms", checkpoint.longest_gap_ms));
                row("longest pause before it".to_owned(), format!("{:.1} ms", checkpoint.longest_gap_before_ms));
            }
            None => row("checkpoint".to_owned(), "none in the time allowed".to_owned()),
        }
        row("killed and restarted, until ready".to_owned(), format!("{:.0} ms", scale.restart_ms));
    }
    if let Some(waiters) = &report.waiters {
        let fewer = if waiters.parked < waiters.wanted { " (the limit on open files allows no more)" } else { "" };
        row(
            format!("{} parked waiters{fewer}", waiters.parked),
            format!("{:.0} bytes each", waiters.resident_bytes_per_waiter),
        );
        row("all of them served after".to_owned(), format!("{:.0} ms", waiters.served_after_ms));
    }
    if let Some(expiry) = &report.mass_expiry {
        row(
            format!("{} leases on one deadline, the last", expiry.leases),
            format!("{:.0} ms late", expiry.last_late_ms),
        );
        row("the same, p99.9 as the service says".to_owned(), format!("{:.0} ms late", expiry.late_p999_ms));
    }
    table.render("Limits", out);
}

fn machine(report: &Report, out: &mut String) {
    let machine = &report.machine;
    let mut table = Table::new(&["Machine", ""]);
    let mut row = |what: &str, value: String| table.row(vec![what.to_owned(), value]);
    row("cores", format!("{}, {}", machine.cores, machine.processor));
    row("kernel", machine.kernel.clone());
    row("memory", format!("{} MiB", machine.memory_mib));
    row("busy with other things before", format!("{:.0} %", machine.busy_before * 100.0));
    let spread = |latency: &Spread| format!("p50 {}, p99 {}", time(latency.p50_us), time(latency.p99_us));
    row("fdatasync of a page, before", spread(&machine.fdatasync_before));
    if let Some(after) = &machine.fdatasync_after {
        row("fdatasync of a page, after", spread(after));
    }
    for (peer, version) in &machine.peers {
        row(peer, version.clone());
    }
    row("took", format!("{} s", report.took_s));
    table.render("Machine", out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&["what", "n"]);
        table.row(vec!["ab".to_owned(), "12345".to_owned()]);
        let mut out = String::new();
        table.render("T", &mut out);
        assert_eq!(out, "\n### T\n\n| what |     n |\n|------|------:|\n| ab   | 12345 |\n");
    }

    #[test]
    fn amounts_have_as_many_digits_as_they_need() {
        assert_eq!(amount(0.754, "×"), "0.75×");
        assert_eq!(amount(292.4, " bytes"), "292 bytes");
    }
}
