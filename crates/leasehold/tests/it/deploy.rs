//! The files of `deploy/` for service managers: that they are valid, and that they name options, paths and exit codes
//! that exist. Containers are built elsewhere (`scripts/container.sh`).

#[cfg(target_os = "linux")]
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

#[cfg(target_os = "linux")]
use rustix::process::Signal;
use serde_json::Value;

#[cfg(target_os = "linux")]
use crate::support::{Launch, PATIENCE, until};
use crate::support::{leasehold, output_of};

fn deploy(path: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy")).join(path)
}

fn text_of(path: &str) -> String {
    std::fs::read_to_string(deploy(path)).unwrap()
}

/// Panics unless `serve` has all of these options.
#[track_caller]
fn options_exist<'a>(options: impl IntoIterator<Item = &'a str>) {
    let help = String::from_utf8(output_of(leasehold().args(["serve", "--help"])).stdout).unwrap();
    let mut seen = 0;
    for option in options {
        let is_there = help.split([' ', '\n']).any(|word| word == option);
        assert!(is_there, "serve has no {option}: {help}");
        seen += 1;
    }
    assert!(seen > 0, "there should have been some");
}

#[test]
fn the_manifest_runs_one_locked_down_server_with_options_that_exist() {
    let read = "import json, sys, yaml; json.dump(list(yaml.safe_load_all(open(sys.argv[1]))), sys.stdout)";
    let output = output_of(Command::new("python3").args(["-c", read]).arg(deploy("kubernetes/leasehold.yaml")));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "scripts/need.sh installs what this needs: {said}");
    let documents: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let of_kind =
        |kind: &str| documents.iter().find(|document| document["kind"] == kind).unwrap_or_else(|| panic!("no {kind}"));

    let set = &of_kind("StatefulSet")["spec"];
    assert_eq!(set["replicas"], 1);
    let pod = &set["template"]["spec"];
    assert_eq!(
        (&pod["securityContext"]["runAsNonRoot"], &pod["automountServiceAccountToken"]),
        (&true.into(), &false.into())
    );
    let container = &pod["containers"][0];
    let inside = &container["securityContext"];
    assert_eq!((&inside["readOnlyRootFilesystem"], &inside["allowPrivilegeEscalation"]), (&true.into(), &false.into()));
    assert_eq!(inside["capabilities"]["drop"][0], "ALL");
    for (probe, path) in [("startupProbe", "/healthz"), ("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")] {
        assert_eq!(container[probe]["httpGet"]["path"], path, "{probe}");
    }
    let mounted = &container["volumeMounts"][0];
    assert_eq!(mounted["name"], set["volumeClaimTemplates"][0]["metadata"]["name"]);

    let args: Vec<&str> = container["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap()).collect();
    assert_eq!(args[0], "serve");
    let data = format!("--data={}/", mounted["mountPath"].as_str().unwrap());
    assert!(args.iter().any(|arg| arg.starts_with(&data)), "{args:?}");
    options_exist(args[1..].iter().map(|arg| arg.split_once('=').unwrap().0));
    let label = &set["selector"]["matchLabels"];
    for selector in [
        &of_kind("Service")["spec"]["selector"],
        &of_kind("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        &set["template"]["metadata"]["labels"],
        &of_kind("NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
    ] {
        assert_eq!(selector, label);
    }
    // Both ports are closed but to namespaces that are named, and it may call no other host.
    let closed = &of_kind("NetworkPolicy")["spec"];
    assert_eq!(closed["policyTypes"], serde_json::json!(["Ingress", "Egress"]));
    assert!(closed["ingress"].as_array().unwrap().iter().all(|rule| rule["from"].is_array()), "{closed}");
    assert_eq!(closed["egress"], serde_json::json!([]));
    // Its command line works, up to the point where a machine is needed. Callers sign on, with a digest that has to be
    // put in first.
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("leasehold.toml");
    let config = of_kind("ConfigMap")["data"]["leasehold.toml"].as_str().unwrap();
    let args: Vec<&str> = args.into_iter().filter(|arg| !arg.starts_with("--config=")).collect();
    let started_with = |text: &str| {
        std::fs::write(&file, text).unwrap();
        let output = output_of(leasehold().args(&args).arg("--config").arg(&file).arg("--print-config"));
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, _, said) = started_with(config);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("auth.token.digest must be the digest that `leasehold token new` printed"), "{said}");
    let digest = format!("sha256:{}", "0".repeat(64));
    let (code, shown, said) =
        started_with(&config.replace("put here the digest that leasehold token new printed", &digest));
    assert_eq!(code, Some(0), "{said}");
    assert!(shown.contains(&digest), "{shown}");
}

#[test]
fn the_container_file_names_settings_that_exist() {
    let text = text_of("container/Containerfile");
    let variables: Vec<&str> = text.split([' ', '\n', '=']).filter(|word| word.starts_with("LEASEHOLD_")).collect();
    let options: Vec<String> = variables
        .iter()
        .map(|name| format!("--{}", name.trim_start_matches("LEASEHOLD_").to_lowercase().replace('_', "-")))
        .collect();
    options_exist(options.iter().map(String::as_str));
    assert!(text.contains("LEASEHOLD_CONFIG=/etc/leasehold/leasehold.toml"), "callers sign on");
    for line in
        ["USER 65532:65532", "VOLUME /data", "EXPOSE 8080", "CMD [\"/leasehold\", \"healthcheck\"]", "CMD [\"serve\"]"]
    {
        assert!(text.contains(line), "no {line}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn systemd_accepts_the_unit_and_it_names_options_that_exist() {
    let unit = text_of("systemd/leasehold.service");
    let value = |name: &str| {
        let line = unit.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.unwrap_or_else(|| panic!("no {name}"))
    };
    assert_eq!((value("Type"), value("Restart"), value("RestartPreventExitStatus")), ("notify", "on-failure", "2 4"));
    let start = value("ExecStart");
    assert!(start.contains(" serve "), "{start}");
    options_exist(start.split(' ').filter(|word| word.starts_with("--")));
    // The file decides: the unit overrides none of its settings, and the one that is shipped can be started with.
    assert!(start.ends_with("serve --config /etc/leasehold/leasehold.toml"), "{start}");
    assert!(!unit.lines().any(|line| line.starts_with("Environment=LEASEHOLD_")), "{unit}");
    let shown =
        output_of(leasehold().args(["serve", "--print-config", "--config"]).arg(deploy("systemd/leasehold.toml")));
    assert_eq!(shown.status.code(), Some(0), "{}", String::from_utf8_lossy(&shown.stderr));
    let shown = String::from_utf8(shown.stdout).unwrap();
    let directory = format!("data = \"/var/lib/{}\"", value("StateDirectory"));
    assert!(shown.contains(&directory), "{shown}");

    // It wants to see the program it starts, which is not installed here.
    let scratch = tempfile::tempdir().unwrap();
    let copy = scratch.path().join("leasehold.service");
    let here = unit.replace("/usr/local/bin/leasehold", env!("CARGO_BIN_EXE_leasehold"));
    std::fs::write(&copy, here).unwrap();
    let output = output_of(Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&copy));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "scripts/need.sh installs systemd-analyze: {said}");
    assert!(!said.contains("leasehold.service"), "{said}");
    // From 0 to 100, how much of the machine is left open to it. It is at 15.
    let args = ["security", "--no-pager", "--offline=true", "--threshold=20"];
    let output = output_of(Command::new("systemd-analyze").args(args).arg(&copy));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// A call that the unit forbids fails with EPERM: at a start that no test watches, or only under load.
#[test]
#[cfg(target_os = "linux")]
fn the_unit_allows_every_system_call_there_is_in_a_life() {
    let allowed = allowed_calls(&text_of("systemd/leasehold.service"));
    let scratch = tempfile::tempdir().unwrap();
    let report = scratch.path().join("calls");
    let server = Launch::on(&scratch.path().join("data")).under_strace(&["-c"], &report).start();
    let mut client = server.client();
    for number in 0..200 {
        let claim = format!("{{\"resource\":\"r{number}\",\"timeout\":0.2}}");
        client.call("POST", "/v1/claims/", &claim).unwrap().expect(201);
    }
    client.call("GET", "/metrics", "").unwrap().expect(200);
    server.signal(Signal::HUP);
    assert_eq!(server.stop(Signal::TERM).0.code(), Some(0));
    // Written when strace ends, which is after its child did.
    let table = until("strace reports", PATIENCE, || {
        std::fs::read_to_string(&report).ok().filter(|table| table.trim_end().ends_with("total"))
    });
    let calls: BTreeSet<&str> = table
        .lines()
        .skip(2)
        .filter_map(|line| line.split_whitespace().last())
        .filter(|name| *name != "total")
        .collect();
    assert!(calls.contains("fdatasync") && calls.contains("accept4"), "{table}");
    // Only root gives away files that SQLite makes, and under the unit no process is root.
    let is_fine = |name: &&&str| name.starts_with('-') || **name == "fchown" || allowed.contains(**name);
    let forbidden: Vec<_> = calls.iter().filter(|name| !is_fine(name)).collect();
    assert!(forbidden.is_empty(), "{forbidden:?}");
}

/// The result of `SystemCallFilter=`: the first line names all allowed calls, later ones add, or with ~ take away.
#[cfg(target_os = "linux")]
fn allowed_calls(unit: &str) -> BTreeSet<String> {
    let output = output_of(Command::new("systemd-analyze").args(["syscall-filter", "--no-pager"]));
    let text = String::from_utf8(output.stdout).unwrap();
    let mut sets: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut current = "";
    for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
        if line.starts_with('@') {
            current = line.trim();
        } else if !line.trim().is_empty() {
            sets.entry(current).or_default().push(line.trim());
        }
    }
    // Always allowed, whatever a unit says.
    let mut allowed = BTreeSet::from(["execve".to_owned()]);
    let mut changes = vec![(true, "@default")];
    for line in unit.lines().filter_map(|line| line.strip_prefix("SystemCallFilter=")) {
        let adds = !line.starts_with('~');
        changes.extend(line.trim_start_matches('~').split(' ').map(|name| (adds, name)));
    }
    for (adds, name) in changes {
        let mut names = vec![name];
        while let Some(name) = names.pop() {
            if name.starts_with('@') {
                names.extend(&sets[name]);
            } else if adds {
                allowed.insert(name.to_owned());
            } else {
                allowed.remove(name);
            }
        }
    }
    allowed
}
