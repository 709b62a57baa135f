//! Stories: each file in `golden/` is a script of commands with, below each, exactly what the engine changed (`+`), had
//! told (`~`) and answered (`=`, or `!` for a refusal). `GOLDEN=rewrite cargo test --test golden` writes them anew; the
//! difference that git shows then is what changed for callers.
//!
//! At its end every story also holds the invariants, and its changes replayed give an equal engine.

#[path = "golden/play.rs"]
mod play;
#[path = "golden/render.rs"]
mod render;
#[path = "golden/words.rs"]
mod words;

use std::fs;
use std::path::{Path, PathBuf};

use play::Play;

/// Fewer than this, and some were lost.
const STORIES_MIN: usize = 20;

#[test]
fn the_stories_go_as_they_are_told() {
    let stories = stories();
    assert!(stories.len() >= STORIES_MIN, "only {} stories are left", stories.len());
    let is_rewriting = std::env::var("GOLDEN").is_ok_and(|mode| mode == "rewrite");
    println!("golden: {} stories", stories.len());
    let mut differing = Vec::new();
    for path in stories {
        let told = fs::read_to_string(&path).expect("a story is readable");
        let name = path.file_name().expect("a story has a name").to_string_lossy().into_owned();
        let played = Play::of(&name, &told);
        if is_rewriting {
            fs::write(&path, &played).expect("a story is writable");
        } else if told != played {
            differing.push(format!("{name}:\n{}", first_difference(&told, &played)));
        }
    }
    assert!(differing.is_empty(), "GOLDEN=rewrite accepts these:\n{}", differing.join("\n"));
}

fn stories() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let entries = fs::read_dir(folder).expect("the folder of stories is there");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry is readable").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    paths.sort();
    paths
}

/// The first line that differs, with the ones before it.
fn first_difference(told: &str, played: &str) -> String {
    let (told, played): (Vec<&str>, Vec<&str>) = (told.lines().collect(), played.lines().collect());
    let at = told.iter().zip(&played).take_while(|(told, played)| told == played).count();
    let before = told[at.saturating_sub(4)..at].join("\n    ");
    let line = |lines: &[&str]| lines.get(at).copied().unwrap_or("(the end)").to_string();
    format!("line {}\n    {before}\n  told {}\n  is   {}", at + 1, line(&told), line(&played))
}
