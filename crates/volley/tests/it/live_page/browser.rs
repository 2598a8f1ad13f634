//! Debian's chromium, driven through chromedriver: a few calls of WebDriver over HTTP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::{PATIENCE, closed_port, until};

pub struct Browser {
    driver: Child,
    address: SocketAddr,
    session: String,
    _profile: TempDir,
}

impl Browser {
    /// `None`: there is none on this machine.
    pub fn start() -> Option<Browser> {
        let address = closed_port();
        let mut command = Command::new("chromedriver");
        command.args([format!("--port={}", address.port()), "--log-level=OFF".to_owned()]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let driver = command.spawn().ok()?;
        let profile = tempfile::tempdir().unwrap();
        let mut browser = Browser { driver, address, session: String::new(), _profile: profile };
        until("chromedriver answers", || TcpStream::connect(address).is_ok());
        let profile = format!("--user-data-dir={}", browser._profile.path().display());
        let args = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--window-size=1280,1600",
            &profile,
        ];
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "goog:chromeOptions": { "args": args }, "goog:loggingPrefs": { "browser": "ALL" },
        } } });
        let made = browser.call("POST", "/session", &wanted);
        // A driver without its browser.
        browser.session = made["sessionId"].as_str()?.to_owned();
        Some(browser)
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let body = body.to_string();
        let (address, length) = (self.address, body.len());
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        // The driver keeps the connection open, whatever it was asked.
        let (mut reader, mut length) = (BufReader::new(stream), 0);
        for line in reader.by_ref().lines().map(Result::unwrap).take_while(|line| !line.is_empty())
        {
            let lower = line.to_ascii_lowercase();
            length = lower
                .strip_prefix("content-length:")
                .map_or(length, |it| it.trim().parse().unwrap());
        }
        let mut answer = vec![0; length];
        reader.read_exact(&mut answer).unwrap();
        let mut value: Value = serde_json::from_slice(&answer).unwrap_or_default();
        value["value"].take()
    }

    fn ask(&self, what: &str, body: &Value) -> Value {
        self.call("POST", &format!("/session/{}{what}", self.session), body)
    }

    pub fn open(&self, link: &str) {
        self.ask("/url", &json!({ "url": link }));
    }

    pub fn run(&self, script: &str) -> Value {
        self.ask("/execute/sync", &json!({ "script": script, "args": [] }))
    }

    pub fn text(&self, script: &str) -> String {
        self.run(script).as_str().unwrap_or_default().to_owned()
    }

    pub fn number(&self, script: &str) -> f64 {
        self.run(script).as_f64().unwrap_or_default()
    }

    /// What the browser's log has of errors; that a server has gone is none.
    pub fn complaints(&self) -> Vec<String> {
        let log = self.ask("/se/log", &json!({ "type": "browser" }));
        let entries = log.as_array().cloned().unwrap_or_default().into_iter();
        let severe = entries.filter(|entry| entry["level"] == "SEVERE");
        let texts = severe.map(|entry| entry["message"].as_str().unwrap_or_default().to_owned());
        texts.filter(|text| !text.contains("net::ERR_")).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            self.call("DELETE", &format!("/session/{}", self.session), &json!({}));
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
