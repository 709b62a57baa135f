//! The tools of operators: the exposition itself, and the dashboard, alerts and manual in the repository that speak of
//! it. A metric that is renamed in one place and not in the others is found here. `promtool` judges the Prometheus
//! files.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use leasehold_testbed::Etcd;
use serde_json::Value;

use crate::support::{Client, Launch, PATIENCE, until};

fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn text_of(path: &str) -> String {
    std::fs::read_to_string(repository().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The exposition of a service that did a little of everything, in the older and the newer format.
fn expositions() -> [String; 2] {
    let directory = tempfile::tempdir().unwrap();
    let server = Launch::on(directory.path()).start();
    let mut client = Client::connect(server.addr).unwrap();
    client.call("POST", "/lock?client=ann", "").unwrap().expect(200);
    client.call("POST", "/lock?client=bob", "").unwrap().expect(409);
    client.call("DELETE", "/lock?client=ann", "").unwrap().expect(200);
    client.call("GET", "/nowhere", "").unwrap().expect(404);
    let mut look = |accept: &str, content_type: &str| {
        let response = client.call_with("GET", "/metrics", &[("accept", accept)], b"").unwrap().expect(200);
        assert_eq!(response.header("content-type"), Some(content_type));
        String::from_utf8(response.body).unwrap()
    };
    [
        look("*/*", "text/plain; version=0.0.4; charset=utf-8"),
        look(
            "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5",
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
        ),
    ]
}

/// The exposition of a node that has another one beside it, in the older format.
fn exposition_of_node() -> String {
    let etcd = Etcd::one();
    let store = format!("etcd://{}/watch", etcd.hosts());
    let node = || Launch::with(&["--listen", "127.0.0.1:0", "--peer-listen", "127.0.0.1:0", "--store", &store]).start();
    let (first, _second) = (node(), node());
    until("the nodes see each other", PATIENCE, || {
        let metrics = first.client().call("GET", "/metrics", "").ok()?.expect(200);
        let text = String::from_utf8(metrics.body).unwrap();
        text.contains("leasehold_cluster_link_up{").then_some(text)
    })
}

/// The names of all samples that are, or can be, in an exposition of the older format.
fn sample_names(exposition: &str) -> BTreeSet<String> {
    let types = exposition.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let suffixes = |kind: &str| if kind == "histogram" { &["_bucket", "_sum", "_count"][..] } else { &[""] };
    types.flat_map(|(name, kind)| suffixes(kind).iter().map(move |suffix| format!("{name}{suffix}"))).collect()
}

/// Everything in a text that looks like a metric of ours.
fn mentioned(text: &str) -> BTreeSet<String> {
    let words = text.split(|char: char| !char.is_ascii_alphanumeric() && char != '_');
    words.filter(|word| word.starts_with("leasehold_")).map(str::to_owned).collect()
}

#[test]
fn dashboard_and_alerts_ask_for_metrics_that_exist() {
    let [classic, _] = expositions();
    let known = &sample_names(&classic) | &sample_names(&exposition_of_node());
    for path in ["deploy/grafana/leasehold.json", "deploy/prometheus/alerts.yml", "deploy/prometheus/alerts_test.yml"] {
        let wanted = mentioned(&text_of(path));
        let unknown: Vec<_> = wanted.difference(&known).collect();
        assert!(unknown.is_empty(), "{path} asks for {unknown:?}");
        assert!(wanted.len() > 10, "{path} was read");
    }
}

#[test]
fn the_manual_explains_every_metric_and_no_other() {
    let [classic, _] = expositions();
    let node = exposition_of_node();
    let families = classic.lines().chain(node.lines()).filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let exposed: BTreeSet<_> = families.map(|(name, _)| name.to_owned()).collect();
    let rows = text_of("docs/operations.md");
    let rows = rows.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`')).map(|(name, _)| name);
    let is_metric = |name: &&str| name.starts_with("leasehold_") || name.starts_with("process_");
    let explained: BTreeSet<_> = rows.filter(is_metric).map(str::to_owned).collect();
    assert_eq!(explained, exposed, "docs/operations.md (left) against /metrics (right)");
}

#[test]
fn every_alert_has_a_runbook_and_a_story_of_calm() {
    let alerts = text_of("deploy/prometheus/alerts.yml");
    let manual = text_of("docs/operations.md");
    let stories = text_of("deploy/prometheus/alerts_test.yml");
    let names: Vec<&str> = alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    let links: Vec<&str> = alerts.lines().filter_map(|line| line.trim().strip_prefix("runbook_url: ")).collect();
    assert!(names.len() > 10, "the alerts were read: {names:?}");
    assert_eq!(names.len(), links.len(), "one runbook an alert");
    for (name, link) in names.iter().zip(links) {
        assert!(link.ends_with(&format!("/docs/operations.md#{}", name.to_lowercase())), "{name} links to {link}");
        assert!(manual.lines().any(|line| line == format!("### {name}")), "no heading for {name}");
        assert!(stories.contains(&format!("alertname: {name}}}")), "no quiet day for {name}");
    }
    for heading in manual.lines().filter_map(|line| line.strip_prefix("### Leasehold")) {
        let name = format!("Leasehold{heading}");
        assert!(names.contains(&&*name), "{name} has a runbook and is no alert");
    }
}

#[test]
fn panels_have_a_title_a_unit_and_a_place_of_their_own() {
    let dashboard: Value = serde_json::from_str(&text_of("deploy/grafana/leasehold.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut ids = BTreeSet::new();
    let mut taken = BTreeSet::new();
    for panel in panels {
        let title = panel["title"].as_str().unwrap();
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}: its id is taken");
        let number = |name: &str| panel["gridPos"][name].as_u64().unwrap();
        for (x, y) in (number("x")..number("x") + number("w")).flat_map(|x| (0..number("h")).map(move |y| (x, y))) {
            assert!(taken.insert((x, y + number("y"))), "{title} overlaps another panel");
        }
        if panel["type"] != "row" {
            assert!(panel["fieldConfig"]["defaults"]["unit"].is_string(), "{title} has no unit");
            let targets = panel["targets"].as_array().unwrap();
            assert!(targets.iter().all(|target| target["expr"].as_str().unwrap().contains("$instance")), "{title}");
        }
    }
}

#[test]
fn promtool_finds_nothing_to_say() {
    let [classic, openmetrics] = expositions();
    promtool(&["check", "metrics"], &classic);
    promtool(&["check", "rules", "alerts.yml"], "");
    promtool(&["test", "rules", "alerts_test.yml"], "");
    // promtool does not read the newer format. It has the same samples, and an end.
    let samples = |text: &str| text.lines().filter(|line| !line.starts_with('#')).count();
    assert_eq!(samples(&openmetrics), samples(&classic));
    assert!(openmetrics.ends_with("# EOF\n"));
}

/// Runs it beside the alerts. `scripts/need.sh` has put it there, if the machine had none.
fn promtool(args: &[&str], input: &str) {
    let ours: PathBuf = repository().join("target/tools/promtool").canonicalize().unwrap_or_default();
    let program = if ours.exists() { ours } else { PathBuf::from("promtool") };
    let started = Command::new(&program)
        .args(args)
        .current_dir(repository().join("deploy/prometheus"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = started.unwrap_or_else(|error| panic!("no promtool ({error}): run scripts/need.sh"));
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "promtool {args:?}: {said}");
    // Lints of metrics do not fail it.
    assert!(args[1] != "metrics" || said.is_empty(), "promtool {args:?}: {said}");
}
