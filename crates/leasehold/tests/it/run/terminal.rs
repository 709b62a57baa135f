//! Under a pseudo terminal with a shell that has job control (`terminal.py`).

use std::process::{Command, Stdio};
use std::time::Duration;

use super::memory;
use crate::support::until;

#[test]
fn in_a_terminal_it_stops_continues_and_ends_as_the_command_alone_would() {
    let server = memory();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/run/terminal.py");
    let mut command = Command::new("python3");
    command.arg(script).arg(env!("CARGO_BIN_EXE_leasehold")).arg(format!("http://{}", server.addr));
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("the scenes are played", Duration::from_mins(3), || child.try_wait().unwrap());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
}
