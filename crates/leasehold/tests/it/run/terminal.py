"""Drives a shell with job control under a pseudo terminal: Ctrl-Z and fg, Ctrl-C in a script, a pipe that wants the keyboard.

Usage: terminal.py LEASEHOLD URL. Exits with 0 when everything is as it would be without `leasehold run`.
"""

import os
import pty
import re
import select
import sys
import time

LEASEHOLD, URL = sys.argv[1:3]
RUN = f"{LEASEHOLD} run --url {URL} --ttl 3s --lock t --"


class Shell:
    def __init__(self):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ["PS1"] = "PROMPT> "
            os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
        self.text = ""
        self.expect(r"PROMPT> ")

    def send(self, text):
        os.write(self.fd, text.encode())

    def line(self, text):
        self.send(text + "\n")

    def expect(self, pattern, seconds=20):
        end = time.monotonic() + seconds
        while True:
            found = re.search(pattern, self.text)
            if found:
                self.text = self.text[found.end() :]
                return found
            left = end - time.monotonic()
            if left <= 0:
                sys.exit(f"not seen: {pattern!r} in {self.text!r}")
            if select.select([self.fd], [], [], left)[0]:
                try:
                    self.text += os.read(self.fd, 4096).decode(errors="replace").replace("\r", "")
                except OSError:
                    sys.exit(f"the shell ended before {pattern!r}: {self.text!r}")


def ctrl_z_and_fg(shell):
    shell.line(f"{RUN} sh -c 'echo u''p; read x; echo g''ot $x; exit 5'; echo code=$?")
    shell.expect(r"up\n")
    shell.send("\x1a")
    shell.expect(r"the lease is still held")
    shell.expect(r"PROMPT> ")
    # Three times the ttl, stopped: the lease is kept.
    time.sleep(9)
    shell.line("fg")
    shell.expect(r"sh -c")
    time.sleep(0.3)
    shell.line("hello")
    shell.expect(r"got hello\n")
    shell.expect(r"PROMPT> ")
    shell.line("echo code=$?")
    shell.expect(r"code=5\n")
    shell.expect(r"PROMPT> ")


def ctrl_c_ends_a_script(shell):
    shell.line(f"sh -c '{RUN} sh -c \"echo u''p; exec sleep 60\"; echo ne''ver'")
    shell.expect(r"up\n")
    shell.send("\x03")
    if "never" in shell.expect(r"(?s)^(.*)PROMPT> ").group(1):
        sys.exit("Ctrl-C: the script went on")
    shell.line("echo after=$?")
    shell.expect(r"after=130\n")
    shell.expect(r"PROMPT> ")


def ctrl_c_reaches_the_command(shell):
    shell.line(f"{RUN} sh -c 'trap \"echo tra''pped; exit 3\" INT; echo u''p; while :; do sleep 0.1; done'; echo code=$?")
    shell.expect(r"up\n")
    shell.send("\x03")
    shell.expect(r"trapped\n")
    shell.expect(r"code=3\n")
    shell.expect(r"PROMPT> ")


def output_into_a_pipe_leaves_the_keyboard_to_the_reader(shell):
    shell.line(f"{RUN} sh -c 'echo data; sleep 1' | sh -c 'cat; read x < /dev/tty; echo re''ad $x'")
    shell.expect(r"data\n")
    time.sleep(1.5)
    shell.line("key")
    shell.expect(r"read key\n")
    shell.expect(r"PROMPT> ")


def input_from_a_pipe_lets_the_command_have_the_keyboard(shell):
    shell.line(f"echo x | {RUN} sh -c 'read x < /dev/tty; echo re''ad $x'")
    time.sleep(1.5)
    shell.line("key")
    shell.expect(r"read key\n")
    shell.expect(r"PROMPT> ")


def in_the_background_it_runs_and_stops_when_it_reads(shell):
    shell.line(f"{RUN} sh -c 'sleep 0.5; read x; echo g''ot $x' &")
    shell.expect(r"the lease is still held")
    time.sleep(0.5)
    # The shell tells at its next prompt.
    shell.line("")
    shell.expect(r"Stopped")
    shell.line("fg")
    time.sleep(1)
    shell.line("word")
    shell.expect(r"got word\n")
    shell.expect(r"PROMPT> ")


shell = Shell()
for scene in [
    ctrl_c_reaches_the_command,
    ctrl_c_ends_a_script,
    output_into_a_pipe_leaves_the_keyboard_to_the_reader,
    input_from_a_pipe_lets_the_command_have_the_keyboard,
    in_the_background_it_runs_and_stops_when_it_reads,
    ctrl_z_and_fg,
]:
    print(scene.__name__, flush=True)
    shell.line("")
    shell.expect(r"PROMPT> ")
    scene(shell)
shell.line("exit")
