//! The rooms of every crate are in layers: a module names only modules below it. For the server the order is written
//! down here; for the other crates it is enough that there is one, which is that no modules name each other in a
//! circle.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The modules of the server from below. A module may use those before it, never one after it.
const LAYERS: &[(&str, &str)] = &[
    ("limits", "the bounds that a caller can meet"),
    ("planted", "bugs on purpose, for the tests to find"),
    ("sync", "threads and time, real or made up for tests"),
    ("duration", "durations as text"),
    ("http", "sockets, deadlines, bodies, JSON in and out, problems; knows nothing of leases"),
    ("trace", "spans"),
    ("settings", "what an operator may set"),
    ("links", "absolute URLs"),
    ("audit_log", "where audit lines go"),
    ("proofs", "signed proofs of holding, and their keys"),
    ("driver", "threads, clock and store around a partition; tells a witness what happened"),
    ("metrics", "what is counted"),
    ("watch", "what happened: ring, series, surveys, digests"),
    ("auth", "who calls, and what a call needs"),
    ("openapi", "the vocabulary of the OpenAPI document"),
    ("faces", "every API, one folder each"),
    ("document", "the OpenAPI document"),
    ("access", "the log line of a request"),
    ("app", "a request from its head to its answer"),
];

/// Seen from tests alone, and so above everything.
const TESTS_ONLY: &[&str] = &["fuzz"];

#[test]
fn a_module_of_the_server_names_only_modules_below_it() {
    let graph = graph_of(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")));
    let place = |module: &str| LAYERS.iter().position(|(name, _)| *name == module);
    for (module, uses) in &graph {
        if TESTS_ONLY.contains(&module.as_str()) {
            continue;
        }
        let at = place(module).unwrap_or_else(|| panic!("`{module}` has no place in LAYERS, say what it is below of"));
        for (used, file) in uses {
            let below = place(used).unwrap_or_else(|| panic!("`{used}` has no place in LAYERS"));
            assert!(
                below < at,
                "{file} uses `crate::{used}`, but `{used}` is above `{module}` in LAYERS: move the thing it needs down, \
                 or hand it in"
            );
        }
    }
    let missing: Vec<_> = LAYERS.iter().filter(|(name, _)| !graph.contains_key(*name)).collect();
    assert!(missing.is_empty(), "in LAYERS, but no module: {missing:?}");
}

#[test]
fn the_http_plumbing_knows_nothing_of_leases() {
    let http = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src/http"));
    for file in sources(http) {
        let code = code_of(&file);
        for lender in ["leasehold_engine", "leasehold_journal"] {
            assert!(!code.contains(lender), "{} names {lender}", file.display());
        }
    }
}

#[test]
fn no_crate_has_modules_that_name_each_other_in_a_circle() {
    let crates = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let mut checked = 0;
    for entry in fs::read_dir(crates).unwrap() {
        let src = entry.unwrap().path().join("src");
        if !src.is_dir() {
            continue;
        }
        checked += 1;
        let graph = graph_of(&src);
        for module in graph.keys() {
            let mut way = vec![module.clone()];
            assert!(
                !leads_back(&graph, module, &mut way, &mut BTreeSet::new()),
                "a circle of modules in {}: {}",
                src.display(),
                way.join(" → ")
            );
        }
    }
    assert!(checked > 5, "the crates are where they were");
}

/// Returns whether `start` can be reached from the end of `way`; if so, `way` is how.
fn leads_back(graph: &Graph, start: &str, way: &mut Vec<String>, seen: &mut BTreeSet<String>) -> bool {
    let at = way.last().expect("it begins with the start").clone();
    for next in graph[&at].keys() {
        if next == start {
            way.push(next.clone());
            return true;
        }
        if seen.insert(next.clone()) {
            way.push(next.clone());
            if leads_back(graph, start, way, seen) {
                return true;
            }
            way.pop();
        }
    }
    false
}

/// For each top module, the top modules it names, each with a file that does.
type Graph = BTreeMap<String, BTreeMap<String, String>>;

fn graph_of(src: &Path) -> Graph {
    let mut modules: BTreeMap<String, Vec<std::path::PathBuf>> = BTreeMap::new();
    for entry in fs::read_dir(src).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() && name != "bin" {
            modules.entry(name).or_default().extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") && name != "lib" && name != "main" {
            modules.entry(name).or_default().push(path);
        }
    }
    modules
        .iter()
        .map(|(module, files)| {
            let mut uses = BTreeMap::new();
            for file in files {
                for name in named(&code_of(file)) {
                    if name != *module && modules.contains_key(&name) {
                        uses.insert(name, file.display().to_string());
                    }
                }
            }
            (module.clone(), uses)
        })
        .collect()
}

/// All sources below a folder but those of tests.
fn sources(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        // `seams` is the driver's test world.
        if ["tests", "test", "seams"].contains(&name) {
            continue;
        }
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// The code of a file without its comments and without its tests, which come last.
fn code_of(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap();
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// The modules after each `crate::`, also of those in braces.
fn named(code: &str) -> Vec<String> {
    let mut names = Vec::new();
    for rest in code.split("crate::").skip(1) {
        let Some(list) = rest.strip_prefix('{') else {
            names.push(word(rest));
            continue;
        };
        let mut depth = 0;
        let mut begins = true;
        for (at, letter) in list.char_indices() {
            match letter {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => begins = true,
                _ if letter.is_whitespace() => {}
                _ if begins => {
                    names.push(word(&list[at..]));
                    begins = false;
                }
                _ => {}
            }
        }
    }
    names
}

fn word(text: &str) -> String {
    text.chars().take_while(|letter| letter.is_ascii_alphanumeric() || *letter == '_').collect()
}

#[test]
fn names_are_found_however_they_are_written() {
    let code =
        "use crate::app::Asked;\nuse crate::{auth, http::{self, json}, faces::lock};\nlet x = crate::duration::f();";
    assert_eq!(named(code), ["app", "auth", "http", "faces", "duration"]);
}
