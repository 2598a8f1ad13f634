#!/usr/bin/env python3
"""Starts what the scripts talk to: the target plain, with TLS, and behind Caddy for HTTP/2.

    serving.py [PORT]        # for trying things by hand; prints the addresses
"""

import os
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time

from target import Seen, Server


def make_certificate(folder):
    """A self-signed certificate for localhost."""
    certificate, key = os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
         "-keyout", key, "-out", certificate],
        check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return certificate, key


def start(folder, port=0):
    """Starts the plain and the TLS server in threads; returns (seen, plain port, TLS port)."""
    seen = Seen()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*make_certificate(folder))
    servers = [Server(("127.0.0.1", port), seen), Server(("127.0.0.1", 0), seen, tls)]
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    return seen, servers[0].server_address[1], servers[1].server_address[1]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start_http2(folder, plain_port):
    """Caddy in front of the plain server, where it is installed: (process, port) or (None, 0)."""
    if not shutil.which("caddy"):
        return None, 0
    port = free_port()
    config = os.path.join(folder, "Caddyfile")
    with open(config, "w", encoding="utf-8") as file:
        file.write(f"""{{
    admin off
    auto_https off
    servers {{
        protocols h1 h2
    }}
}}
https://127.0.0.1:{port}, https://localhost:{port} {{
    bind 127.0.0.1
    tls {folder}/cert.pem {folder}/key.pem
    reverse_proxy 127.0.0.1:{plain_port}
}}
""")
    process = subprocess.Popen(["caddy", "run", "--adapter", "caddyfile", "--config", config],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               stdin=subprocess.DEVNULL, env={**os.environ, "HOME": folder})
    for _ in range(100):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return process, port
        except OSError:
            time.sleep(0.05)
    process.kill()
    process.wait()
    return None, 0


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        _, plain, secure = start(made, int(sys.argv[1]) if len(sys.argv) > 1 else 0)
        print(f"http://127.0.0.1:{plain}/r/hand  https://127.0.0.1:{secure}/r/hand", flush=True)
        try:
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            pass
