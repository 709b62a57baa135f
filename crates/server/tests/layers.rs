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
    ("code", "the kinds of errors, one word each"),
    ("response", "answers with room for the headers of ours"),
    ("planted", "bugs on purpose, for the tests to find"),
    ("sync", "threads and time, real or made up for tests"),
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
    let graph = graph_of(&sources_of(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))), &[]);
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
    let mut below = BTreeSet::new();
    let mut unread = vec!["http".to_owned()];
    while let Some(name) = unread.pop() {
        if below.insert(name.clone()) {
            unread.extend(dependencies_of(&name));
        }
    }
    assert!(below.contains("json"), "the dependencies are written as they were: {below:?}");
    for lender in ["engine", "journal", "auth"] {
        assert!(!below.contains(lender), "{lender} is below http: {below:?}");
    }
}

/// The crates of ours that a crate depends on, each by its folder's name, by its Cargo.toml.
fn dependencies_of(name: &str) -> Vec<String> {
    let manifest = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join(name).join("Cargo.toml");
    let text = fs::read_to_string(manifest).unwrap();
    let (_, dependencies) = text.split_once("[dependencies]\n").unwrap_or_default();
    let lines = dependencies.lines().take_while(|line| !line.starts_with('['));
    lines.filter_map(|line| Some(word(line.strip_prefix("leasehold-")?))).collect()
}

fn word(text: &str) -> String {
    text.chars().take_while(|letter| is_of_word(*letter)).collect()
}

#[test]
fn no_crate_has_modules_that_name_each_other_in_a_circle() {
    let crates = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let (mut checked, mut circles) = (0, Vec::new());
    for entry in fs::read_dir(crates).unwrap() {
        let src = entry.unwrap().path().join("src");
        if !src.is_dir() {
            continue;
        }
        checked += 1;
        let sources = sources_of(&src);
        // In every folder, as deep as it is.
        let parents: BTreeSet<&[String]> =
            sources.iter().filter_map(|source| source.module.split_last()).map(|(_, parent)| parent).collect();
        circles.extend(parents.into_iter().filter_map(|parent| circle_in(&graph_of(&sources, parent))));
    }
    assert!(checked > 5, "the crates are where they were");
    assert!(circles.is_empty(), "circles of modules:\n{}", circles.join("\n"));
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

/// For each module, the modules beside it that it names, each with a file that does.
type Graph = BTreeMap<String, BTreeMap<String, String>>;

/// The code of one file.
struct Source {
    file: String,
    /// The path of its module from the root of the crate. A module in braces counts as the file that it is in.
    module: Vec<String>,
    code: String,
    /// The paths of what it names, from the root as well.
    names: Vec<Vec<String>>,
}

impl Source {
    fn new(file: String, module: Vec<String>, code: String) -> Self {
        let names = named(&code, &module);
        Source { file, module, code, names }
    }
}

/// The modules whose parent is `parent`; the top modules of a crate have none.
fn graph_of(sources: &[Source], parent: &[String]) -> Graph {
    let below = |source: &Source| source.module.strip_prefix(parent).and_then(|rest| rest.first().cloned());
    let modules: BTreeSet<String> = sources.iter().filter_map(below).collect();
    // A thing that the parent passes on is named as the parent's, and belongs to the module that it is from.
    let mut passed_on = BTreeMap::new();
    for root in sources.iter().filter(|source| source.module == parent) {
        for path in imported(&root.code) {
            if let [module, .., thing] = path.as_slice()
                && modules.contains(module)
            {
                passed_on.insert(thing.clone(), module.clone());
            }
        }
    }
    let mut graph: Graph = modules.iter().map(|module| (module.clone(), BTreeMap::new())).collect();
    for source in sources {
        let Some(module) = below(source) else { continue };
        for path in &source.names {
            let Some([first, ..]) = path.strip_prefix(parent) else { continue };
            let used = if modules.contains(first) { Some(first) } else { passed_on.get(first) };
            if let Some(used) = used.filter(|used| **used != module) {
                graph.get_mut(&module).unwrap().insert(used.clone(), source.file.clone());
            }
        }
    }
    graph
}

/// A circle of modules, if there is one, as the way around it.
fn circle_in(graph: &Graph) -> Option<String> {
    graph.keys().find_map(|module| {
        let mut way = vec![module.clone()];
        leads_back(graph, module, &mut way, &mut BTreeSet::new()).then(|| {
            let steps = way.windows(2).map(|step| format!("{} → {} ({})", step[0], step[1], graph[&step[0]][&step[1]]));
            steps.collect::<Vec<_>>().join(", ")
        })
    })
}

/// All sources of a crate but those of tests.
fn sources_of(src: &Path) -> Vec<Source> {
    let mut found = Vec::new();
    read_sources(src, &[], &mut found);
    found
}

fn read_sources(folder: &Path, parent: &[String], found: &mut Vec<Source>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        // `seams` is the driver's test world, and what is in `bin` is another crate.
        if ["tests", "test", "seams", "bin"].contains(&name) {
            continue;
        }
        let mut module = parent.to_vec();
        if !["lib", "main", "mod"].contains(&name) {
            module.push(name.to_owned());
        }
        if path.is_dir() {
            read_sources(&path, &module, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(Source::new(path.display().to_string(), module, code_of(&path)));
        }
    }
}

/// The code of a file without its comments and without its tests, which come last.
fn code_of(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap();
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// The paths, from the root of the crate, of everything that code in `module` names by `crate::` or `super::`.
fn named(code: &str, module: &[String]) -> Vec<Vec<String>> {
    let tokens = tokens_of(code);
    let mut found = Vec::new();
    for at in 0..tokens.len() {
        // One in the middle of a path was seen with its beginning.
        if (at > 0 && tokens[at - 1] == "::") || tokens.get(at + 1) != Some(&"::") {
            continue;
        }
        let (mut base, mut next) = (module.to_vec(), at);
        match tokens[at] {
            "crate" => {
                base.clear();
                next += 2;
            }
            "super" => {
                while tokens[next] == "super" && tokens.get(next + 1) == Some(&"::") {
                    base.pop();
                    next += 2;
                }
            }
            _ => continue,
        }
        expand(&tokens, &mut next, base, &mut found);
    }
    found
}

/// The paths of everything that a parent imports from its own modules: `use code::Code`, `use self::code::Code`.
fn imported(code: &str) -> Vec<Vec<String>> {
    let tokens = tokens_of(code);
    let mut found = Vec::new();
    for at in 0..tokens.len() {
        if tokens[at] == "use" {
            let mut next = if tokens.get(at + 1) == Some(&"self") { at + 3 } else { at + 1 };
            expand(&tokens, &mut next, Vec::new(), &mut found);
        }
    }
    found
}

/// Adds every path of the tree that begins at `next`, each after `path`, and leaves `next` behind the tree.
fn expand(tokens: &[&str], next: &mut usize, mut path: Vec<String>, found: &mut Vec<Vec<String>>) {
    while let Some(&token) = tokens.get(*next) {
        if token == "{" {
            *next += 1;
            while tokens.get(*next).is_some_and(|token| *token != "}") {
                if is_word(tokens[*next]) {
                    expand(tokens, next, path.clone(), found);
                } else {
                    // A comma, or the star of a glob.
                    *next += 1;
                }
            }
            *next += 1;
            return;
        }
        if !is_word(token) {
            break;
        }
        if token != "self" {
            path.push(token.to_owned());
        }
        *next += 1;
        if tokens.get(*next) == Some(&"as") {
            *next += 2;
        }
        if tokens.get(*next) != Some(&"::") {
            break;
        }
        *next += 1;
    }
    found.push(path);
}

/// Words, double colons, and every other character by itself.
fn tokens_of(code: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let len = match rest.find(|letter: char| !is_of_word(letter)) {
            Some(0) if rest.starts_with("::") => 2,
            Some(0) => first.len_utf8(),
            Some(len) => len,
            None => rest.len(),
        };
        tokens.push(&rest[..len]);
        rest = rest[len..].trim_start();
    }
    tokens
}

fn is_word(token: &str) -> bool {
    token.chars().all(is_of_word)
}

fn is_of_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

#[test]
fn names_are_found_however_they_are_written() {
    let names = |code: &str, module: &str| -> Vec<String> {
        let module: Vec<String> = module.split("::").map(String::from).collect();
        named(code, &module).iter().map(|path| path.join("::")).collect()
    };
    let code = "use crate::app::Asked;\nuse crate::{auth, http::{self, json as j}, faces::lock,};\n\
                let x = crate::duration::f::<T>();";
    let expected = ["app::Asked", "auth", "http", "http::json", "faces::lock", "duration::f"];
    assert_eq!(names(code, "log"), expected);
    let code = "use super::{wire, terms::{self, T}};\nuse super::super::list::Answering;\nuse super::*;\n\
                pub(super) fn f() { super::wire::f() }";
    let expected = ["wire", "terms", "terms::T"].map(|name| format!("faces::lock::{name}"));
    let expected =
        [&expected[..], &["faces::list::Answering", "faces::lock", "faces::lock::wire::f"].map(String::from)];
    assert_eq!(names(code, "faces::lock::open"), expected.concat());
}

#[test]
fn a_circle_is_found_however_it_is_written() {
    let circle = |parent: &str, files: &[(&str, &str)]| {
        let path = |text: &str| text.split("::").filter(|part| !part.is_empty()).map(String::from).collect::<Vec<_>>();
        let source =
            |(module, code): &(&str, &str)| Source::new(format!("{module}.rs"), path(module), (*code).to_owned());
        circle_in(&graph_of(&files.iter().map(source).collect::<Vec<_>>(), &path(parent)))
    };
    let a_to_b = ("a", "use super::b::B;");
    assert_eq!(circle("", &[a_to_b, ("b", "use std::fmt;")]), None, "one way is no circle");
    let found = Some("a → b (a.rs), b → a (b.rs)".to_owned());
    assert_eq!(circle("", &[a_to_b, ("b", "use crate::a::A;")]), found);
    assert_eq!(circle("", &[a_to_b, ("b", "use super::{c, a::{self, A}};"), ("c", "")]), found);
    let found = Some("a → b (a.rs), b → a (b::deep.rs)".to_owned());
    assert_eq!(circle("", &[a_to_b, ("b", "mod deep;"), ("b::deep", "fn f() { super::super::a::g() }")]), found);
    let found = Some("a → b (a.rs), b → c (b.rs), c → a (c.rs)".to_owned());
    assert_eq!(circle("", &[a_to_b, ("b", "use super::c::C;"), ("c", "use super::a;")]), found);
    let found = Some("a → b (a.rs), b → a (b.rs)".to_owned());
    assert_eq!(
        circle("", &[("", "pub use a::A;\npub use b::{B, C};"), ("a", "use crate::C;"), ("b", "use super::A;")]),
        found
    );
    // One level down: beside each other in `m`.
    let files = [("m", ""), ("m::a", "use super::b::B;"), ("m::b", "use crate::m::a::A;")];
    assert_eq!(circle("", &files), None, "seen from the root, it is all `m`");
    assert_eq!(circle("m", &files), Some("a → b (m::a.rs), b → a (m::b.rs)".to_owned()));
}
