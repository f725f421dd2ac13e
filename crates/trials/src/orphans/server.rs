//! A tool server that speaks enough of its protocol to be accepted, and keeps running when its client is gone.

use std::io::Write as _;

use serde_json::{Value, json};

/// The hidden verb that runs it. Its process name is that of the link that starts it.
pub(crate) const VERB: &str = "tool-server";

/// The name of that link.
pub(crate) const NAME: &str = "mcp-server-stubborn";

/// Answers requests, then waits for ever.
pub(crate) fn run(_: &[&str]) -> Result<bool, String> {
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let Ok(asked) = serde_json::from_str::<Value>(&line) else { continue };
        let Some(id) = asked.get("id") else { continue };
        let result = match asked["method"].as_str() {
            Some("initialize") => json!({
                "protocolVersion": asked["params"]["protocolVersion"], "capabilities": { "tools": {} },
                "serverInfo": { "name": NAME, "version": "1" },
            }),
            Some("tools/list") => json!({ "tools": [] }),
            _ => json!({}),
        };
        let answer = json!({ "jsonrpc": "2.0", "id": id, "result": result });
        let _ = writeln!(std::io::stdout().lock(), "{answer}");
    }
    loop {
        std::thread::park();
    }
}
