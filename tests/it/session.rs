//! A stdio session with the real binary, driven line by line as a client's author would drive it by hand.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

/// How long an answer may take before the test gives up; no claim about speed.
const PATIENCE: Duration = Duration::from_secs(180);

/// The binary under test, with an environment of its own.
pub(crate) fn kubepermit(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubepermit"));
    command.env_clear().env("HOME", home).env("PATH", "/usr/bin:/bin").current_dir(home);
    command
}

/// A running server and the client's end of its pipes.
pub(crate) struct Session {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    next_id: i64,
}

impl Session {
    /// Starts `kubepermit serve` with these arguments.
    pub(crate) fn start(home: &Path, arguments: &[&str]) -> Self {
        let mut command = kubepermit(home);
        command.arg("serve").args(arguments);
        Self::spawn(command)
    }

    /// Starts any command as a server.
    pub(crate) fn spawn(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let output = child.stdout.take().unwrap();
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                let Ok(line) = line else { return };
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { input: child.stdin.take(), child, lines, next_id: 1 }
    }

    /// The handshake of the revisions up to 2025-11-25.
    pub(crate) fn initialize(&mut self, version: &str) -> Value {
        let params = json!({
            "protocolVersion": version, "capabilities": {}, "clientInfo": { "name": "test", "version": "1" },
        });
        let answer = self.request("initialize", params);
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        answer["result"].clone()
    }

    /// Sends a request and returns its answer, an error included.
    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.next_id;
        self.next_id += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        loop {
            let answer = self.receive();
            if answer["id"] == json!(id) {
                return answer;
            }
            assert!(answer.get("method").is_some(), "an answer to nothing: {answer}");
        }
    }

    /// Calls a tool and returns its `result`.
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.request("tools/call", json!({ "name": tool, "arguments": arguments }));
        assert!(answer.get("error").is_none(), "{answer}");
        answer["result"].clone()
    }

    /// Calls run_job and returns its structured content; it must not be refused.
    pub(crate) fn run_job(&mut self, arguments: Value) -> Value {
        let result = self.call("run_job", arguments);
        assert_ne!(result["isError"], json!(true), "{result}");
        result["structuredContent"].clone()
    }

    /// Submits a job and returns its token, which has the reference server's form.
    pub(crate) fn submit_job(&mut self, arguments: Value) -> String {
        let result = self.call("submit_job", arguments);
        assert_ne!(result["isError"], json!(true), "{result}");
        let result = &result["structuredContent"];
        assert_eq!(result["status"], json!("submitted"), "{result}");
        let token = result["job_token"].as_str().unwrap();
        assert!(token.len() == 36 && token.starts_with("job-"), "{token}");
        token.to_owned()
    }

    /// Fetches a job, which must be known, and returns what is said of it.
    pub(crate) fn fetch_job(&mut self, token: &str, wait_s: u64) -> Value {
        let result = self.call("fetch_job", json!({ "job_token": token, "wait_s": wait_s }));
        assert_ne!(result["isError"], json!(true), "{result}");
        result["structuredContent"].clone()
    }

    /// Ends the server as nothing can prevent.
    pub(crate) fn kill_9(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Calls run_job and returns the text of its refusal.
    pub(crate) fn refused(&mut self, arguments: Value) -> String {
        let result = self.call("run_job", arguments);
        assert_eq!(result["isError"], json!(true), "{result}");
        assert!(result.get("structuredContent").is_none(), "{result}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }

    /// Sends one message.
    pub(crate) fn send(&mut self, message: &Value) {
        self.send_raw(format!("{message}\n").as_bytes());
    }

    /// Sends bytes as they are.
    pub(crate) fn send_raw(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().expect("the session's input is closed");
        input.write_all(bytes).unwrap();
        input.flush().unwrap();
    }

    /// The next message, which must be JSON-RPC 2.0.
    pub(crate) fn receive(&mut self) -> Value {
        let line = self.lines.recv_timeout(PATIENCE).expect("no answer");
        let message: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("not JSON: {line}"));
        assert_eq!(message["jsonrpc"], json!("2.0"), "{line}");
        message
    }

    /// Nothing more is to come for a while.
    pub(crate) fn expect_silence(&mut self) {
        if let Ok(line) = self.lines.recv_timeout(Duration::from_millis(300)) {
            panic!("unexpected: {line}");
        }
    }

    /// The server's process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Closes the input and waits for the end; what was still written must be JSON-RPC too.
    pub(crate) fn finish(mut self) -> (ExitStatus, Vec<Value>) {
        drop(self.input.take());
        let status = self.child.wait().unwrap();
        let rest = self.lines.iter().map(|line| serde_json::from_str(&line).unwrap()).collect();
        (status, rest)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        drop(self.input.take());
        // A test that failed leaves no server behind.
        if self.child.try_wait().ok().flatten().is_none() {
            std::thread::sleep(Duration::from_millis(100));
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Every record of an audit directory or file, in order, with its chain checked by the documented rule.
pub(crate) fn audit_records(path: &Path) -> Vec<Value> {
    let mut files = if path.is_dir() {
        std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect()
    } else {
        vec![path.to_owned()]
    };
    files.retain(|file| file.extension().is_some_and(|extension| extension == "jsonl"));
    files.sort();
    let mut records = Vec::new();
    for file in files {
        let mut text = String::new();
        std::fs::File::open(file).unwrap().read_to_string(&mut text).unwrap();
        records.extend(text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()));
    }
    records
}
