"""A collector that only writes down: each POST as a file in the directory it is given. Prints its port once it listens."""

import http.server
import pathlib
import sys

directory = pathlib.Path(sys.argv[1])
count = 0


class Collector(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        global count
        body = self.rfile.read(int(self.headers["content-length"]))
        count += 1
        name = self.path.strip("/").replace("/", "-")
        (directory / f"{name}-{count}").write_bytes(self.headers["content-type"].encode() + b"\n" + body)
        self.send_response(200)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


server = http.server.HTTPServer(("127.0.0.1", 0), Collector)
print(server.server_address[1], flush=True)
server.serve_forever()
