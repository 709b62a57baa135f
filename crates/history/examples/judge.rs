//! Searches a history that a failed test of a cluster has kept: `cargo run -p leasehold-history --example judge FILE`.

use leasehold_history::{Rules, parse, search};

fn main() {
    let file = std::env::args().nth(1).expect("the file of a history");
    let history = parse(&std::fs::read_to_string(file).expect("the file can be read")).expect("it is a history");
    let rules = Rules { grace_us: 200_000, worlds_max: 200_000, asks_repeat: true };
    match search(&history, rules) {
        Ok(searched) => println!("it can be true: {searched:?}"),
        Err(contradiction) => {
            println!("{contradiction}\n{}", history[contradiction.op]);
            std::process::exit(1);
        }
    }
}
