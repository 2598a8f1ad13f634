"""The server that the conformance scripts talk to: it answers what they need and counts exactly.

Every run of a script gets its own prefix, /r/ID, so runs that share the server do not mix. What
is under the prefix is the path that counts. A request is counted when it has been read, before it
is answered: a client that gave up waiting has still been counted. It is started by serving.py.
"""

import base64
import gzip
import hashlib
import json
import re
import socket
import sys
import threading
import time
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

BODY_BYTES_MAX = 16 << 20
DELAY_MS_MAX = 30_000
DIGEST_NONCE = "5c1d8a0f7be34421"  # fixed, so that both tools are asked the same


class Seen:
    """What each run has sent."""

    def __init__(self):
        self.lock = threading.Lock()
        self.requests = {}  # run -> list of "METHOD path [type] [body digest]"
        self.counters = {}  # (run, name) -> how often /count/name was asked

    def add(self, run, line):
        with self.lock:
            self.requests.setdefault(run, []).append(line)

    def of(self, run):
        with self.lock:
            return list(self.requests.get(run, []))

    def count(self, run, name):
        with self.lock:
            self.counters[run, name] = self.counters.get((run, name), 0) + 1
            return self.counters[run, name]


def parts_of_multipart(content_type, body):
    """A multipart body as a list of parts; the boundary is random, so it is not shown."""
    found = re.search(r'boundary="?([^";]+)', content_type)
    if not found:
        return None
    parts = []
    for chunk in body.split(b"--" + found.group(1).encode())[1:-1]:
        head, _, content = chunk.strip(b"\r\n").partition(b"\r\n\r\n")
        headers = {}
        for line in head.decode("utf-8", "replace").split("\r\n"):
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        digest = hashlib.sha256(content).hexdigest()[:12]
        parts.append({"headers": headers, "bytes": len(content), "sha": digest})
    return parts


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # buffered: one answer, one packet
    timeout = 60

    # --- reading -------------------------------------------------------------------------

    def body_of_request(self):
        if "chunked" in self.headers.get("transfer-encoding", "").lower():
            body = b""
            while True:
                size = int(self.rfile.readline().split(b";")[0], 16)
                body += self.rfile.read(size)
                self.rfile.readline()
                if size == 0:
                    return body
        return self.rfile.read(min(int(self.headers.get("content-length") or 0), BODY_BYTES_MAX))

    def handle_any(self):
        self.body = self.body_of_request()
        split = urlsplit(self.path)
        found = re.match(r"/r/([^/]+)(/.*)?$", split.path)
        self.run, path = (found.group(1), found.group(2) or "/") if found else ("", split.path)
        self.query = dict(parse_qsl(split.query, keep_blank_values=True))
        self.note(path + ("?" + split.query if split.query else ""))
        words = path.strip("/").split("/")
        route = getattr(self, "on_" + words[0].replace("-", "_"), None)
        try:
            if path == "/":
                self.answer(200, b"hello", {"content-type": "text/plain"})
            elif route is None:
                self.answer(404, b"no such path", {"content-type": "text/plain"})
            else:
                route(*words[1:])
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = handle_any
    do_PURGE = do_put = handle_any

    def note(self, path):
        line = f"{self.command} {path}"
        kind = self.headers.get("content-type", "")
        if kind:
            line += " " + re.sub(r"boundary=\S+", "boundary=B", kind)
        if self.body and not kind.startswith("multipart/"):
            line += " " + hashlib.sha256(self.body).hexdigest()[:8]
        self.server.seen.add(self.run, line)

    def log_message(self, *_):
        pass

    # --- answering -----------------------------------------------------------------------

    def answer(self, status, body=b"", headers=None, reason=None):
        headers = headers if headers is not None else {}
        self.send_response_only(status, reason)
        for name, value in headers.items() if isinstance(headers, dict) else headers:
            self.send_header(name, value)
        if status not in (204, 304):
            self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD" and status not in (204, 304):
            self.wfile.write(body)
        self.wfile.flush()

    def answer_json(self, value, status=200, headers=None):
        merged = {"content-type": "application/json"}
        merged.update(headers or {})
        self.answer(status, json.dumps(value, ensure_ascii=False).encode(), merged)

    def here(self, path):
        return f"/r/{self.run}{path}"

    # --- routes --------------------------------------------------------------------------

    def on_echo(self, *_):
        """What was received, as JSON."""
        kind = self.headers.get("content-type", "")
        lowered = {}
        for name, value in self.headers.items():
            lowered[name.lower()] = re.sub(r"boundary=\S+", "boundary=B", value)
        answer = {
            "method": self.command,
            "query": self.query,
            "headers": lowered,
            "body": self.body.decode("utf-8", "replace") if "multipart" not in kind else "",
            "bytes": len(self.body) if "multipart" not in kind else 0,
        }
        if kind.startswith("multipart/"):
            answer["parts"] = parts_of_multipart(kind, self.body)
        if kind.startswith("application/x-www-form-urlencoded"):
            answer["form"] = sorted(map(list, parse_qsl(self.body.decode("utf-8", "replace"),
                                                        keep_blank_values=True)))
        self.answer_json(answer)

    def on_status(self, code="200", *_):
        self.answer(int(code), b"status " + code.encode(), {"content-type": "text/plain"})

    def on_reason(self, *_):
        self.answer(299, b"own words", reason="Own Words")

    def on_delay(self, ms="0", *_):
        time.sleep(min(int(ms), DELAY_MS_MAX) / 1000)
        self.answer(200, b"waited", {"content-type": "text/plain"})

    def on_slow_body(self, ms="0", *_):
        """The head at once, the second half of the body later."""
        self.send_response_only(200)
        self.send_header("content-length", "20")
        self.end_headers()
        self.wfile.write(b"0123456789")
        self.wfile.flush()
        time.sleep(min(int(ms), DELAY_MS_MAX) / 1000)
        self.wfile.write(b"abcdefghij")
        self.wfile.flush()

    def on_redirect(self, count="1", *_):
        left = int(count)
        if left <= 0:
            self.answer(200, b"arrived", {"content-type": "text/plain"})
        else:
            self.answer(302, b"", {"location": self.here(f"/redirect/{left - 1}")})

    def on_redirect_relative(self, *_):
        self.answer(302, b"", {"location": "echo?from=relative"})

    def on_redirect_to(self, status="302", *_):
        self.answer(int(status), b"", {"location": self.query.get("url", self.here("/"))})

    def on_redirect_here(self, status="302", *rest):
        self.answer(int(status), b"", {"location": self.here("/" + "/".join(rest))})

    def on_loop(self, *_):
        self.answer(302, b"", {"location": self.here("/loop")})

    def on_cookies(self, what="", *_):
        """Shows the cookies received; /cookies/set?a=1 sets them first."""
        if what == "set":
            headers = [("content-type", "application/json")]
            headers += [("set-cookie", f"{k}={v}; Path=/") for k, v in self.query.items()]
            self.answer(200, b"{}", headers)
        elif what == "set-redirect":
            headers = [("set-cookie", f"{k}={v}; Path=/") for k, v in self.query.items()]
            self.answer(302, b"", headers + [("location", self.here("/cookies"))])
        elif what == "attributes":
            self.answer(200, b"{}", [
                ("set-cookie", "plain=1"),
                ("set-cookie", f"pathed=2; Path={self.here('/cookies')}; HttpOnly"),
                ("set-cookie", "aged=3; Path=/; Max-Age=3600"),
                ("set-cookie", "dated=4; Path=/; Expires=Fri, 01 Jan 2100 00:00:00 GMT"),
                ("set-cookie", "safe=5; Path=/; Secure"),
                ("set-cookie", "gone=6; Path=/; Max-Age=0"),
            ])
        else:
            self.answer_json({"cookie": self.headers.get("cookie", "")})

    def on_basic(self, user="", password="", *_):
        wanted = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
        if self.headers.get("authorization") == wanted:
            self.answer_json({"user": user})
        else:
            self.answer(401, b"who?", {"www-authenticate": 'Basic realm="room"'})

    def on_digest(self, user="", password="", *_):
        given = self.headers.get("authorization", "")
        fields = dict(re.findall(r'(\w+)="?([^",]*)"?', given))
        md5 = lambda text: hashlib.md5(text.encode()).hexdigest()
        if given.startswith("Digest "):
            secret = md5(f"{user}:room:{password}")
            place = md5(f"{self.command}:{fields.get('uri')}")
            wanted = md5(":".join([secret, fields.get("nonce", ""), fields.get("nc", ""),
                                   fields.get("cnonce", ""), fields.get("qop", ""), place]))
            if fields.get("response") == wanted and fields.get("username") == user:
                self.answer_json({"user": user})
                return
        ask = f'Digest realm="room", nonce="{DIGEST_NONCE}", qop="auth", algorithm=MD5'
        self.answer(401, b"who?", {"www-authenticate": ask})

    def on_gzip(self, *_):
        body = gzip.compress(json.dumps({"packed": "gzip", "text": "na " * 100}).encode(), mtime=0)
        self.answer(200, body, {"content-encoding": "gzip", "content-type": "application/json"})

    def on_deflate(self, *_):
        body = zlib.compress(json.dumps({"packed": "deflate", "text": "na " * 100}).encode())
        self.answer(200, body, {"content-encoding": "deflate", "content-type": "application/json"})

    def on_unpack(self, *_):
        """Unpacks a compressed request body and says what was in it."""
        names = [n.strip() for n in self.headers.get("content-encoding", "").split(",") if n]
        body = self.body
        for name in reversed(names):
            body = gzip.decompress(body) if name == "gzip" else zlib.decompress(body)
        self.answer_json({"encodings": names, "body": body.decode("utf-8", "replace")})

    def on_bytes(self, count="0", *_):
        size = min(int(count), BODY_BYTES_MAX)
        body = bytes(i % 251 for i in range(min(size, 251)))
        body = (body * (size // 251 + 1))[:size]
        self.answer(200, body, {"content-type": "application/octet-stream"})

    def on_json(self, *_):
        self.answer_json({
            "user": {"name": "Ada", "tags": ["a", "b", "c"], "age": 36, "ratio": 0.5, "none": None},
            "items": [{"id": 1, "price": 9.5, "ok": True}, {"id": 2, "price": 12, "ok": False}],
            "a.b": "dotted", "text": "grüße ☃", "big": 12345678901234567890, "empty": {},
        })

    def on_headers(self, *_):
        self.answer(200, b"see headers", [
            ("content-type", "text/plain; charset=utf-8"), ("x-one", "1"), ("X-Mixed-Case", "Yes"),
            ("x-twice", "first"), ("x-twice", "second"), ("etag", '"abc"'), ("x-empty", ""),
        ])

    def on_text(self, *_):
        self.answer(200, "grüße ☃ 𝄞".encode(), {"content-type": "text/plain; charset=utf-8"})

    def on_chunked(self, *_):
        self.send_response_only(200)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for piece in (b"one,", b"two,", b"three"):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()

    def on_html(self, *_):
        body = (b"<html><head><title>Room</title></head><body><h1>One</h1>"
                b"<form action='echo' method='post'><input name='a' value='1'></form>"
                b"<a href='echo?x=1'>go</a></body></html>")
        self.answer(200, body, {"content-type": "text/html"})

    def on_count(self, name="x", *_):
        self.answer_json({"count": self.server.seen.count(self.run, name)})

    def on_close(self, *_):
        """Ends the connection without an answer."""
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def on_cut(self, *_):
        """Promises more body than it sends."""
        self.send_response_only(200)
        self.send_header("content-length", "100")
        self.end_headers()
        self.wfile.write(b"short")
        self.wfile.flush()
        self.close_connection = True

    def on_garbage(self, *_):
        self.wfile.write(b"this is not HTTP\r\n\r\n")
        self.wfile.flush()
        self.close_connection = True


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, address, seen, tls=None):
        self.seen, self.tls = seen, tls
        super().__init__(address, Handler)

    def finish_request(self, request, client_address):
        """The handshake belongs to the connection's thread: a slow one must not stop the rest."""
        if self.tls is not None:
            request = self.tls.wrap_socket(request, server_side=True)
        super().finish_request(request, client_address)

    def handle_error(self, request, client_address):
        kind = sys.exc_info()[0]
        if not issubclass(kind, (OSError, ValueError)):  # refused handshakes, cut connections
            super().handle_error(request, client_address)
