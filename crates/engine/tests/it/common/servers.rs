//! nginx, Caddy and Python's http.server, each with what the tests ask of it.

use std::path::Path;
use std::process::Command;

use super::certificates::Authority;
use super::process::{Server, find, start};

/// Long enough that every server finds it worth compressing.
pub fn page() -> String {
    format!("begin {} end", "volley and nginx agree on this text, ".repeat(40))
}

/// nginx on five ports and a socket; connections are closed after ten requests each.
pub struct Nginx {
    pub server: Server,
    pub authority: Authority,
    pub plain: u16,
    /// HTTP/2 with prior knowledge.
    pub h2c: u16,
    /// TLS with `h2` and `http/1.1`.
    pub tls: u16,
    /// TLS with `http/1.1` only.
    pub tls1: u16,
    /// TLS that asks for a client certificate.
    pub mutual: u16,
    _certificates: tempfile::TempDir,
}

impl Nginx {
    pub fn start() -> Option<Nginx> {
        let program = find("nginx")?;
        let certificates = tempfile::tempdir().unwrap();
        let authority = Authority::new(certificates.path(), "authority");
        let server = start(5, |folder, ports| {
            authority.issue(&["localhost"]);
            let file = folder.join("nginx.conf");
            std::fs::write(&file, nginx_conf(folder, certificates.path(), ports)).unwrap();
            let mut command = Command::new(&program);
            command.arg("-c").arg(file).arg("-p").arg(folder);
            command
        });
        let [plain, h2c, tls, tls1, mutual] = server.ports[..] else { unreachable!() };
        Some(Nginx {
            server,
            authority,
            plain,
            h2c,
            tls,
            tls1,
            mutual,
            _certificates: certificates,
        })
    }

    /// Requests that nginx has logged for a port, as `PROTOCOL METHOD URI STATUS CONNECTION`.
    pub fn log(&self, port: u16) -> Vec<String> {
        let text = std::fs::read_to_string(self.server.path("access.log")).unwrap_or_default();
        let mark = format!("{port} ");
        text.lines().filter_map(|line| line.strip_prefix(&mark)).map(str::to_owned).collect()
    }
}

fn nginx_conf(folder: &Path, certificates: &Path, ports: &[u16]) -> String {
    let [plain, h2c, tls, tls1, mutual] = ports[..] else { unreachable!() };
    let (folder, certificates) = (folder.display(), certificates.display());
    let certificate = format!(
        "ssl_certificate {certificates}/localhost.crt; ssl_certificate_key {certificates}/localhost.key;"
    );
    let places = format!(
        "location / {{ return 200 '{}'; }} location /none {{ return 204; }} location /slow {{ limit_rate 1; return 200 'slow'; }}",
        page()
    );
    format!(
        "daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 4096; }}
http {{
  log_format books '$server_port $server_protocol $request_method $request_uri $status $connection $ssl_client_s_dn';
  access_log {folder}/access.log books;
  client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  default_type text/plain; gzip on; gzip_min_length 100; gzip_types text/plain; keepalive_requests 10;
  server {{ listen 127.0.0.1:{plain}; listen unix:{folder}/nginx.sock; {places} }}
  server {{ listen 127.0.0.1:{h2c} http2; {places} }}
  server {{ listen 127.0.0.1:{tls} ssl http2; {certificate} {places} }}
  server {{ listen 127.0.0.1:{tls1} ssl; {certificate} {places} }}
  server {{ listen 127.0.0.1:{mutual} ssl http2; {certificate} {places}
    ssl_verify_client on; ssl_client_certificate {certificates}/authority.pem; }}
}}
"
    )
}

/// Caddy with HTTP/1.1 and h2c on one port, and HTTPS with its own authority on another.
pub struct Caddy {
    pub server: Server,
    pub plain: u16,
    pub tls: u16,
}

impl Caddy {
    pub fn start() -> Option<Caddy> {
        let program = find("caddy")?;
        let server = start(2, |folder, ports| {
            let [plain, tls] = ports[..] else { unreachable!() };
            let page = page();
            let text = format!(
                "{{\n admin off\n auto_https disable_redirects\n skip_install_trust\n servers {{\n  protocols h1 h2 h2c\n }}\n}}
(site) {{\n encode zstd gzip\n header content-type text/plain\n respond \"{page}\" 200\n}}
http://127.0.0.1:{plain} {{\n bind 127.0.0.1\n import site\n}}
https://localhost:{tls} {{\n bind 127.0.0.1\n tls internal\n import site\n}}\n"
            );
            let file = folder.join("Caddyfile");
            std::fs::write(&file, text).unwrap();
            let mut command = Command::new(&program);
            command.args(["run", "--adapter", "caddyfile", "--config"]).arg(file);
            command.env("HOME", folder).env("XDG_DATA_HOME", folder).env("XDG_CONFIG_HOME", folder);
            command
        });
        let [plain, tls] = server.ports[..] else { unreachable!() };
        // The port is open before there is a certificate for it.
        let url = format!("https://localhost:{tls}");
        let plan = super::plan_with("tls: { insecure: true }", "iterations: 1", "{ get: / }");
        let try_once = || super::Runner::to(url.as_str()).run(&plan).total().completed;
        assert_eq!(super::eventually(try_once, |completed| *completed == 1), 1, "no certificate");
        Some(Caddy { server, plain, tls })
    }

    /// The root certificate that Caddy made for itself.
    pub fn root(&self) -> std::path::PathBuf {
        self.server.path("caddy/pki/authorities/local/root.crt")
    }
}

/// Python's http.server: its own file handler, and a handler that ends bodies by closing.
pub fn python() -> Option<Server> {
    let program = find("python3")?;
    let script = "
import http.server, os, sys
class Handler(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        if self.path != '/until-close':
            return super().do_GET()
        self.send_response(200)
        self.end_headers()
        for piece in range(20):
            self.wfile.write(b'piece %d,' % piece)
            self.wfile.flush()
    def log_message(self, *a):
        os.write(1, ('%s %s\\n' % (self.command, self.path)).encode())
class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 512
Server(('127.0.0.1', int(sys.argv[1])), Handler).serve_forever()
";
    Some(start(1, |folder, ports| {
        std::fs::write(folder.join("page.txt"), page()).unwrap();
        let mut command = Command::new(&program);
        command.args(["-c", script, &ports[0].to_string()]).current_dir(folder);
        command
    }))
}
