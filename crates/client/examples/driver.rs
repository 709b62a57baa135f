//! The driver of this client for the conformance runner: it carries out the commands on stdin and reports on stdout, as
//! `clients/conformance/PROTOCOL.md` says. It judges nothing itself.

use std::collections::HashMap;
use std::io::{BufRead as _, Write as _};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold_client::{AtRisk, Client, Error, Lease, LeaseClock, Loss, Moment, Progress, Request};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// The lease clock of every client here, and one that never jumps.
#[derive(Clone)]
struct Clocks {
    lease: LeaseClock,
    plain: LeaseClock,
}

impl Clocks {
    fn at(&self) -> f64 {
        self.plain.now().since_start().as_secs_f64()
    }

    /// Without the jumps so far.
    fn shown(&self, moment: Moment) -> f64 {
        let jumped = self.lease.now().since(self.plain.now());
        (moment - jumped).since_start().as_secs_f64()
    }
}

struct Driver {
    clocks: Clocks,
    clients: HashMap<String, Client>,
    acquiring: HashMap<String, JoinHandle<()>>,
    leases: Arc<Mutex<HashMap<String, Arc<Lease>>>>,
}

fn main() {
    tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(std::io::stderr).init();
    let clocks = Clocks { lease: LeaseClock::system(), plain: LeaseClock::system() };
    let pid = std::process::id();
    let supports = json!(["block", "clock", "callbacks"]);
    say(&clocks, json!({"event": "hello", "client": "rust", "mode": "async", "pid": pid, "supports": supports}));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut driver = Driver { clocks, clients: HashMap::new(), acquiring: HashMap::new(), leases: Arc::default() };
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    runtime.block_on(async {
        while let Some(line) = receiver.recv().await {
            let Ok(command) = serde_json::from_str::<Value>(&line) else { continue };
            if driver.carry_out(&command).await {
                break;
            }
        }
        for client in driver.clients.values() {
            client.close().await;
        }
    });
    std::process::exit(0);
}

impl Driver {
    /// True when that was the last command.
    async fn carry_out(&mut self, command: &Value) -> bool {
        let text = |name: &str| command[name].as_str().unwrap_or_default().to_owned();
        let lease_name = text("lease");
        let id = &command["id"];
        let result = match command["op"].as_str().unwrap_or_default() {
            "time" => Ok(json!({})),
            "open" => self.open(command),
            "acquire" => self.acquire(command),
            "check" => self.check(&lease_name),
            "release" => self.release(&lease_name),
            "cancel" => {
                if let Some(task) = self.acquiring.remove(&lease_name) {
                    let has_ended = task.is_finished();
                    task.abort();
                    let is_cancelled = !has_ended && task.await.is_err_and(|error| error.is_cancelled());
                    self.reply(id, Ok(json!({})));
                    if is_cancelled {
                        say(&self.clocks, json!({"event": "cancelled", "lease": lease_name}));
                    }
                    return false;
                }
                Ok(json!({}))
            }
            "drop" => {
                self.leases.lock().expect("no panic").remove(&lease_name);
                Ok(json!({}))
            }
            "block" => {
                std::thread::sleep(seconds(&command["seconds"]));
                Ok(json!({}))
            }
            "clock" => {
                self.clocks.lease.advance(seconds(&command["jump"]));
                Ok(json!({}))
            }
            "close" => {
                let name = text("client");
                if let Some(client) = self.clients.get(&name).cloned() {
                    let clocks = self.clocks.clone();
                    tokio::spawn(async move {
                        client.close().await;
                        say(&clocks, json!({"event": "closed", "client": name}));
                    });
                }
                Ok(json!({}))
            }
            "quit" => {
                self.reply(id, Ok(json!({})));
                return true;
            }
            other => Err(("Unsupported".to_owned(), format!("{other} is no command"))),
        };
        self.reply(id, result);
        false
    }

    fn reply(&self, id: &Value, result: Result<Value, (String, String)>) {
        let mut reply = match result {
            Ok(members) => members,
            Err((error, message)) => json!({"ok": false, "error": error, "message": message}),
        };
        reply["reply"] = id.clone();
        if reply.get("ok").is_none() {
            reply["ok"] = true.into();
        }
        say(&self.clocks, reply);
    }

    fn open(&mut self, command: &Value) -> Result<Value, (String, String)> {
        let urls: Vec<&str> = command["urls"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let mut builder = Client::builder().urls(&urls.join(",")).clock(self.clocks.lease.clone());
        if let Some(file) = command["token_file"].as_str() {
            builder = builder.token_file(file);
        }
        if let Some(name) = command["name"].as_str() {
            builder = builder.name(name);
        }
        if !command["round"].is_null() {
            builder = builder.round(seconds(&command["round"]));
        }
        let client = builder.build().map_err(|error| (error.kind().to_owned(), error.to_string()))?;
        self.clients.insert(command["client"].as_str().unwrap_or_default().to_owned(), client);
        Ok(json!({}))
    }

    fn acquire(&mut self, command: &Value) -> Result<Value, (String, String)> {
        let wrong = |error: Error| (error.kind().to_owned(), error.to_string());
        let text = |name: &str| command[name].as_str().unwrap_or_default().to_owned();
        let (name, lease_name) = (text("name"), text("lease"));
        let Some(client) = self.clients.get(&text("client")) else {
            return Err(("Usage".into(), "no such client".into()));
        };
        let request = match &*text("kind") {
            "lock" => client.lock(&name),
            "claim" => client.claim(&name),
            _ => client.pool(&name).map_err(wrong)?.borrow(),
        };
        let mut request = request.ttl(seconds(&command["ttl"]));
        if !command["timeout"].is_null() {
            request = request.wait(seconds(&command["timeout"]));
        }
        let request = self.listening(request, &lease_name, &text("on_at_risk"), &text("on_lost"));
        let (clocks, leases) = (self.clocks.clone(), Arc::clone(&self.leases));
        let key = lease_name.clone();
        let task = tokio::spawn(async move {
            let event = match request.acquire().await {
                Ok(lease) => {
                    let lease = Arc::new(lease);
                    leases.lock().expect("no panic").insert(lease_name.clone(), Arc::clone(&lease));
                    json!({
                        "event": "granted", "lease": lease_name, "token": lease.token().ok(), "slot": lease.slot(),
                        "deadline": clocks.shown(lease.deadline()), "ttl": lease.terms().length.as_secs_f64(),
                    })
                }
                Err(error) => json!({
                    "event": "failed", "lease": lease_name, "error": error.kind(), "message": error.to_string(),
                }),
            };
            say(&clocks, event);
        });
        self.acquiring.insert(key, task);
        Ok(json!({}))
    }

    fn listening(&self, request: Request, lease: &str, on_at_risk: &str, on_lost: &str) -> Request {
        let (clocks, name, then) = (self.clocks.clone(), lease.to_owned(), on_at_risk.to_owned());
        let request = request.on_at_risk(move |AtRisk { deadline, cause, .. }: AtRisk| {
            let deadline = clocks.shown(deadline);
            say(&clocks, json!({"event": "at_risk", "lease": name, "deadline": deadline, "cause": cause}));
            misbehave(&then);
        });
        let (clocks, name, then, leases) =
            (self.clocks.clone(), lease.to_owned(), on_lost.to_owned(), Arc::clone(&self.leases));
        let request = request.on_lost(move |loss: Loss| {
            let at = clocks.at();
            let lease = leases.lock().expect("no panic").get(&name).cloned();
            let deadline = lease.map(|lease| clocks.shown(lease.deadline()));
            let message = loss.to_string();
            say(
                &clocks,
                json!({
                    "event": "lost", "lease": name, "cause": loss.cause.word(), "token": loss.token,
                    "deadline": deadline, "message": message, "at": at,
                }),
            );
            misbehave(&then);
        });
        let (clocks, name, known) = (self.clocks.clone(), lease.to_owned(), Mutex::new(0));
        request.on_progress(move |progress: Progress| {
            let mut known = known.lock().expect("no panic");
            for _ in *known..progress.places_lost {
                say(&clocks, json!({"event": "place_lost", "lease": name}));
            }
            *known = progress.places_lost;
            say(
                &clocks,
                json!({
                    "event": "progress", "lease": name, "elapsed": progress.elapsed.as_secs_f64(),
                    "queue_position": progress.queue_position, "holders": progress.holders,
                    "waiting": progress.waiting, "eta": progress.eta.map(|eta| eta.as_secs_f64()),
                }),
            );
        })
    }

    fn lease(&self, name: &str) -> Result<Arc<Lease>, (String, String)> {
        let lease = self.leases.lock().expect("no panic").get(name).cloned();
        lease.ok_or_else(|| ("Usage".into(), "no such lease".into()))
    }

    fn check(&self, name: &str) -> Result<Value, (String, String)> {
        let lease = self.lease(name)?;
        match lease.token() {
            Ok(token) => Ok(json!({
                "held": true, "token": token, "slot": lease.slot(), "deadline": self.clocks.shown(lease.deadline()),
            })),
            Err(Error::Lost(loss)) => Ok(json!({
                "ok": false, "error": "LeaseLost", "cause": loss.cause.word(), "message": loss.to_string(),
            })),
            Err(error) => Err((error.kind().to_owned(), error.to_string())),
        }
    }

    fn release(&self, name: &str) -> Result<Value, (String, String)> {
        let (lease, clocks, name) = (self.lease(name)?, self.clocks.clone(), name.to_owned());
        let began = clocks.at();
        tokio::spawn(async move {
            let result =
                lease.release().await.map_or_else(|error| error.kind().to_owned(), |done| done.word().to_owned());
            say(&clocks, json!({"event": "released", "lease": name, "result": result, "began": began}));
        });
        Ok(json!({}))
    }
}

fn misbehave(how: &str) {
    assert_ne!(how, "raise", "the user's callback fails");
    if let Some(seconds) = how.strip_prefix("block:").and_then(|text| text.parse().ok()) {
        std::thread::sleep(Duration::from_secs_f64(seconds));
    }
}

fn seconds(value: &Value) -> Duration {
    Duration::try_from_secs_f64(value.as_f64().unwrap_or_default()).unwrap_or_default()
}

fn say(clocks: &Clocks, mut line: Value) {
    let mut out = std::io::stdout().lock();
    if line.get("at").is_none() {
        line["at"] = clocks.at().into();
    }
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}
