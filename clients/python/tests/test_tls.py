"""https: a private CA is named, a certificate of another is refused with the reason."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

import pytest
from conftest import Server

import leasehold


def certificate(directory: Path, name: str) -> "tuple[str, str]":
    cert, key = directory / f"{name}.pem", directory / f"{name}.key"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"),
            *("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)),
        ],
        check=True,
        capture_output=True,
    )
    return str(cert), str(key)


def test_tls(tmp_path: Path, name: str) -> None:
    cert, key = certificate(tmp_path, "server")
    stranger, _ = certificate(tmp_path, "stranger")
    server = Server("--tls-cert", cert, "--tls-key", key, scheme="https")
    try:
        with leasehold.Client(server.url, ca_file=cert) as client, client.lock(name, timeout=10) as lease:
            assert lease.held
        with leasehold.Client(server.url, tls=ssl.create_default_context(cafile=cert)) as client, client.claim(name, timeout=10):
            pass
        with (
            leasehold.Client(server.url, ca_file=stranger) as client,
            pytest.raises(leasehold.TlsError, match="certificate") as error,
            client.lock(name, timeout=10),
        ):
            raise AssertionError("unreachable")
        assert server.url in str(error.value)
    finally:
        server.stop()
