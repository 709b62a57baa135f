//! `sim run --seeds N [--start S]`, `sim repro SEED`, `sim meta`, `sim planted`.

use std::process::ExitCode;

use leasehold_sim::fault::Fault;
use leasehold_sim::plan::Cuts;
use leasehold_sim::{World, run};

const USAGE: &str = "usage:
  sim run --seeds N [--start S]     run worlds until one breaks
  sim repro SEED [--without FAULT,FAULT] [--clients N] [--chaos-us N] [--planted BUG]    tell the story of one
  sim meta [--seeds N] [--start S]  the same seed twice is the same, byte for byte
  sim cluster [SEED] [--seeds N] [--start S] [--planted BUG]    worlds of several nodes, or the story of one
  sim planted [--seeds N]           every planted bug is found (needs --features planted)";

fn main() -> ExitCode {
    // A panic inside a world is caught and reported as what it is: an assertion that did not hold.
    std::panic::set_hook(Box::new(|_| {}));
    let args: Vec<String> = std::env::args().skip(1).collect();
    match Args::parse(&args).and_then(|args| args.act()) {
        Ok(code) => code,
        Err(message) => {
            eprintln!("sim: {message}\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

#[derive(Debug, Default)]
struct Args {
    what: String,
    seed: Option<u64>,
    seeds: Option<u64>,
    start: u64,
    cuts: Cuts,
    planted: Option<String>,
}

impl Args {
    fn parse(args: &[String]) -> Result<Args, String> {
        let mut parsed = Args::default();
        let mut args = args.iter();
        parsed.what.clone_from(args.next().ok_or("what is to be done?")?);
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or(format!("{arg} needs a value"));
            match arg.as_str() {
                "--seeds" => parsed.seeds = Some(number(value()?)?),
                "--start" => parsed.start = number(value()?)?,
                "--clients" => parsed.cuts.clients = Some(usize::try_from(number(value()?)?).map_err(|_| "too many")?),
                "--chaos-us" => parsed.cuts.chaos_us = Some(number(value()?)?),
                "--planted" => parsed.planted = Some(value()?.clone()),
                "--without" => {
                    for name in value()?.split(',') {
                        let fault = Fault::ALL.iter().find(|fault| fault.name() == name);
                        parsed.cuts.without.insert(*fault.ok_or(format!("no fault is called {name}"))?);
                    }
                }
                _ => parsed.seed = Some(number(arg)?),
            }
        }
        Ok(parsed)
    }

    fn act(&self) -> Result<ExitCode, String> {
        match self.what.as_str() {
            "run" => Ok(self.run()),
            "repro" => self.repro(),
            "meta" => Ok(self.meta()),
            "cluster" => self.cluster(),
            #[cfg(feature = "planted")]
            "planted" => Ok(self.find_planted()),
            #[cfg(not(feature = "planted"))]
            "planted" => Err("planted bugs need --features planted".to_owned()),
            other => Err(format!("no such thing as {other}")),
        }
    }

    fn cluster(&self) -> Result<ExitCode, String> {
        self.arm()?;
        if let Some(seed) = self.seed {
            let outcome = leasehold_sim::cluster::ClusterWorld::run(seed, true);
            print!("{}", outcome.story);
            if let Some(violation) = outcome.violation {
                println!("{violation}");
                return Ok(ExitCode::FAILURE);
            }
            return Ok(ExitCode::SUCCESS);
        }
        let (ran, counts, failure) =
            leasehold_sim::cluster::run_seeds(self.start..self.start + self.seeds.unwrap_or(400));
        println!("{}", leasehold_sim::cluster::summary(ran, &counts));
        if let Some((seed, violation)) = failure {
            println!("seed {seed} broke {violation}");
            return Ok(ExitCode::FAILURE);
        }
        Ok(ExitCode::SUCCESS)
    }

    fn run(&self) -> ExitCode {
        let seeds = self.seeds.unwrap_or(2_000);
        let (totals, failure) = run::run_seeds(self.start..self.start + seeds, |_| {});
        print!("{}", totals.summary());
        if let Some(failure) = failure {
            println!("seed {} broke {}\nshow it with: {}", failure.seed, failure.violation, failure.command());
            return ExitCode::FAILURE;
        }
        let missed = totals.rare.missed();
        if seeds >= 2_000 && !missed.is_empty() {
            println!("never happened: {missed:?}");
            return ExitCode::FAILURE;
        }
        ExitCode::SUCCESS
    }

    fn repro(&self) -> Result<ExitCode, String> {
        let seed = self.seed.ok_or("which seed?")?;
        self.arm()?;
        let outcome = World::run(seed, &self.cuts, true);
        print!("{}", outcome.story);
        Ok(match outcome.violation {
            Some(violation) => {
                println!("seed {seed} broke {violation}");
                ExitCode::FAILURE
            }
            None => ExitCode::SUCCESS,
        })
    }

    fn meta(&self) -> ExitCode {
        let seeds = self.seeds.unwrap_or(20);
        for seed in self.start..self.start + seeds {
            let [first, second] = [(); 2].map(|()| World::run(seed, &Cuts::default(), true));
            if first.story != second.story || first.digest != second.digest {
                println!("seed {seed} is not the same twice");
                return ExitCode::FAILURE;
            }
        }
        println!("meta: {seeds} seeds, each the same twice, byte for byte");
        ExitCode::SUCCESS
    }

    #[cfg(feature = "planted")]
    fn arm(&self) -> Result<(), String> {
        if let Some(name) = &self.planted {
            let bug = leasehold_sim::planted::named(name).ok_or(format!("no bug is called {name}"))?;
            leasehold_sim::planted::arm(Some(bug));
        }
        Ok(())
    }

    #[cfg(not(feature = "planted"))]
    fn arm(&self) -> Result<(), String> {
        match &self.planted {
            Some(_) => Err("planted bugs need --features planted".to_owned()),
            None => Ok(()),
        }
    }

    #[cfg(feature = "planted")]
    fn find_planted(&self) -> ExitCode {
        let (report, all_found) = leasehold_sim::planted::find_all(self.seeds.unwrap_or(500), self.planted.as_deref());
        print!("{report}");
        if all_found { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text} is not a number"))
}
