"""The engine of ClickHouse (chDB) behind the HTTP interface, as far as @clickhouse/client uses it for the examples."""

import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qsl, urlparse

from chdb import session

ENGINE = session.Session(sys.argv[1])
SETTINGS = ("date_time_input_format",)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        url = dict(parse_qsl(urlparse(self.path).query))
        statement = "\n".join(part for part in (url.get("query"), self.body().decode()) if part)
        parameters = {name[len("param_"):]: value for name, value in url.items() if name.startswith("param_")}
        try:
            for name in SETTINGS:
                if name in url:
                    ENGINE.query(f"SET {name} = '{url[name]}'")
            result = ENGINE.query(statement, params=parameters)
            self.reply(200, result.bytes() or b"")
        except Exception as error:
            self.reply(400, str(error).encode())

    def body(self):
        if self.headers.get("transfer-encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        parts = []
        while length := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(length))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def reply(self, status, body):
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
