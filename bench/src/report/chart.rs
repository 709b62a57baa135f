//! The chart: requests a second by peer, and latency against load. Written as SVG by hand, readable on light and dark.

use std::fmt::Write as _;

use super::Report;
use crate::figures::{Spread, float_len};
use crate::peer::Contender;

const WIDTH: f64 = 960.0;
const LEFT: f64 = 190.0;
const RIGHT: f64 = 90.0;
const BAR: f64 = 16.0;
const GAP: f64 = 10.0;
const PLOT_HEIGHT: f64 = 240.0;
/// Throughput is drawn for this many connections.
const CONNECTIONS: u64 = 64;

fn colour(peer: Contender) -> &'static str {
    match peer {
        Contender::Leasehold => "#0b7285",
        Contender::LeaseholdMemory => "#3bc9db",
        Contender::Ceiling => "#868e96",
        Contender::RedisAlways => "#c92a2a",
        Contender::RedisMemory => "#ff8787",
        Contender::Postgres => "#364fc7",
        Contender::Etcd | Contender::EtcdThree => "#e67700",
        Contender::Cluster | Contender::ClusterPostgres => "#2b8a3e",
    }
}

pub(super) fn render(report: &Report) -> String {
    let mut body = String::new();
    let bars_end = bars(report, 20.0, &mut body);
    let usual = curves(report, "p50", |latency| latency.p50_us, bars_end + 30.0, &mut body);
    let height = curves(report, "p99", |latency| latency.p99_us, usual + 10.0, &mut body);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" font-family=\"system-ui, sans-serif\" \
         font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{body}</svg>\n"
    )
}

fn text(out: &mut String, x: f64, y: f64, anchor: &str, words: &str) {
    let words = words.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"#212529\">{words}</text>");
}

/// Returns where it ends.
fn bars(report: &Report, top: f64, out: &mut String) -> f64 {
    let rows: Vec<_> = report.throughput.iter().filter(|row| row.connections == CONNECTIONS).collect();
    let title = format!("Borrow + return, requests a second, {CONNECTIONS} connections");
    text(out, 20.0, top + 10.0, "start", &title);
    let most = rows.iter().map(|row| row.figures.rate_per_s).fold(1.0, f64::max);
    let mut y = top + 30.0;
    for row in rows {
        let rate = row.figures.rate_per_s;
        let width = rate / most * (WIDTH - LEFT - RIGHT);
        text(out, LEFT - 10.0, y + BAR - 3.0, "end", row.peer.label());
        let fill = colour(row.peer);
        let _ = writeln!(out, "<rect x=\"{LEFT}\" y=\"{y}\" width=\"{width:.1}\" height=\"{BAR}\" fill=\"{fill}\"/>");
        text(out, LEFT + width + 8.0, y + BAR - 3.0, "start", &format!("{rate:.0}"));
        y += BAR + GAP;
    }
    y
}

/// One quantile against the offered load, both on scales of powers. Returns where it ends.
fn curves(report: &Report, name: &str, quantile: fn(&Spread) -> f64, top: f64, out: &mut String) -> f64 {
    let title = format!("Latency against load: {name} in microseconds, by requests offered a second (open loop)");
    text(out, 20.0, top + 10.0, "start", &title);
    let (left, right) = (70.0, WIDTH - 220.0);
    let (upper, lower) = (top + 30.0, top + 30.0 + PLOT_HEIGHT);
    let kept: Vec<_> = report.latency.iter().filter(|point| point.kept_up).collect();
    let rates = kept.iter().map(|point| point.offered_per_s);
    let (least, most) =
        rates.fold((f64::INFINITY, 0.0), |(least, most): (f64, f64), rate| (least.min(rate), most.max(rate)));
    if kept.is_empty() {
        text(out, left, upper + 20.0, "start", "not measured");
        return lower;
    }
    let x = |rate: f64| left + (rate / least).ln() / (most / least).ln().max(1e-9) * (right - left);
    let values = || kept.iter().map(|point| quantile(&point.latency).max(1.0));
    let lowest = values().fold(f64::INFINITY, f64::min).log10().floor();
    let highest = values().fold(1.0, f64::max).log10().ceil().max(lowest + 1.0);
    let y = |us: f64| lower - (us.max(1.0).log10() - lowest) / (highest - lowest) * PLOT_HEIGHT;

    let mut line_us = 10f64.powf(lowest);
    while line_us <= 10f64.powf(highest) * 1.001 {
        let at = y(line_us);
        let _ = writeln!(out, "<path d=\"M{left} {at:.1}H{right}\" stroke=\"#dee2e6\"/>");
        text(out, left - 8.0, at + 4.0, "end", &format!("{line_us:.0}"));
        line_us *= 10.0;
    }
    for &rate in &offered(report) {
        if rate <= most {
            text(out, x(rate), lower + 18.0, "middle", &format!("{:.0}k", rate / 1e3));
        }
    }
    for (index, peer) in Contender::ALL.into_iter().enumerate() {
        let points: Vec<_> = kept.iter().filter(|point| point.peer == peer).collect();
        let stroke = colour(peer);
        let mut path = String::new();
        for (place, point) in points.iter().enumerate() {
            let (at_x, at_y) = (x(point.offered_per_s), y(quantile(&point.latency)));
            let _ = write!(path, "{}{at_x:.1} {at_y:.1}", if place == 0 { "M" } else { "L" });
            let _ = writeln!(out, "<circle cx=\"{at_x:.1}\" cy=\"{at_y:.1}\" r=\"3\" fill=\"{stroke}\"/>");
        }
        let _ = writeln!(out, "<path d=\"{path}\" fill=\"none\" stroke=\"{stroke}\" stroke-width=\"2\"/>");
        let key_y = upper + 22.0 * float_len(index);
        let _ = writeln!(
            out,
            "<rect x=\"{}\" y=\"{key_y:.1}\" width=\"12\" height=\"12\" fill=\"{stroke}\"/>",
            right + 24.0
        );
        text(out, right + 42.0, key_y + 11.0, "start", peer.label());
    }
    lower + 40.0
}

/// Every rate that was offered, once.
fn offered(report: &Report) -> Vec<f64> {
    let mut rates: Vec<f64> = report.latency.iter().map(|point| point.offered_per_s).collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    rates
}
