//! The agents: where each is got from, how it is set up to speak to a model of ours, and how it is told to run a command.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use super::model::Dialect;

/// An agent.
pub(super) struct Agent {
    pub(super) name: &'static str,
    /// Its package, with the version that this was tried with: they change every week.
    pub(super) package: &'static str,
    pub(super) dialect: Dialect,
    /// Its program below the packages, where a word in braces stands for this machine.
    program: &'static str,
    /// Sets it up in a folder, and returns how it is started.
    set_up: fn(&Set, Command) -> Result<Command, String>,
}

/// What an agent is set up with.
pub(super) struct Set<'a> {
    /// Everything of it lies here.
    pub(super) place: &'a Path,
    pub(super) port: u16,
    /// A tool server that it is to start.
    pub(super) server: &'a Path,
}

/// What every agent is asked. What it does is up to its model.
const PROMPT: &str = "Run the command.";

pub(super) const AGENTS: &[Agent] = &[
    Agent {
        name: "codex",
        package: "@openai/codex@0.166.0",
        dialect: Dialect::Responses,
        program: "@openai/codex-linux-{node}/vendor/{rust}-unknown-linux-musl/bin/codex",
        set_up: codex,
    },
    Agent {
        name: "claude",
        package: "@anthropic-ai/claude-code@2.1.325",
        dialect: Dialect::Messages,
        program: "@anthropic-ai/claude-code-linux-{node}/claude",
        set_up: claude,
    },
    Agent {
        name: "opencode",
        package: "opencode-ai@1.18.33",
        dialect: Dialect::Chat,
        program: "opencode-linux-{node}/bin/opencode",
        set_up: opencode,
    },
    Agent {
        name: "gemini",
        package: "@google/gemini-cli@0.61.0",
        dialect: Dialect::Gemini,
        program: "@google/gemini-cli/bundle/gemini.js",
        set_up: gemini,
    },
];

/// The first Node that runs an agent which is no program of its own.
const NODE_LEAST: u32 = 20;

impl Agent {
    /// Returns its program below a folder of packages.
    pub(super) fn program(&self, packages: &Path) -> PathBuf {
        let (node, rust) = match std::env::consts::ARCH {
            "aarch64" => ("arm64", "aarch64"),
            other => ("x64", other),
        };
        packages.join("node_modules").join(self.program.replace("{node}", node).replace("{rust}", rust))
    }

    /// Says what this machine lacks for it.
    pub(super) fn missing(&self) -> Option<String> {
        if !self.program.ends_with(".js") {
            return None;
        }
        let said = Command::new("node").arg("--version").output().ok()?;
        let version = String::from_utf8_lossy(&said.stdout).trim().to_owned();
        let major =
            version.strip_prefix('v').and_then(|version| version.split('.').next()?.parse::<u32>().ok());
        (major.unwrap_or(0) < NODE_LEAST)
            .then(|| format!("it needs Node {NODE_LEAST}, and here is {version}"))
    }

    /// Returns how it is started, in a folder of its own, with nothing of ours in its environment.
    pub(super) fn command(&self, packages: &Path, set: &Set) -> Result<Command, String> {
        let program = self.program(packages);
        // In a session of its own, as in a terminal that is closed with it.
        let mut command = Command::new("setsid");
        if self.program.ends_with(".js") {
            command.arg("node");
        }
        command.arg(program).env_clear();
        let (home, work) = (set.place.join("home"), set.place.join("work"));
        for folder in [&home, &work, &set.place.join("tmp")] {
            fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        command.env("PATH", std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into()));
        command.env("HOME", &home).env("TMPDIR", set.place.join("tmp")).current_dir(&work);
        command.envs([("TERM", "dumb"), ("NO_COLOR", "1"), ("LANG", "C.UTF-8")]);
        (self.set_up)(set, command)
    }
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(path, text))
        .map_err(|error| format!("{}: {error}", path.display()))
}

fn codex(set: &Set, mut command: Command) -> Result<Command, String> {
    let home = set.place.join("codex");
    let (port, server) = (set.port, set.server.display());
    let settings = format!(
        "model = \"scripted\"\nmodel_provider = \"here\"\napproval_policy = \"never\"\n\
         sandbox_mode = \"danger-full-access\"\ncheck_for_update_on_startup = false\n\
         [features]\nplugins = false\napps = false\n[analytics]\nenabled = false\n\
         [mcp_servers.stubborn]\ncommand = \"{server}\"\nargs = [\"{verb}\"]\n\
         [model_providers.here]\nname = \"here\"\nbase_url = \"http://127.0.0.1:{port}/v1\"\nwire_api = \"responses\"\n\
         env_key = \"SCRIPTED\"\nrequest_max_retries = 1\nstream_max_retries = 1\n",
        verb = super::server::VERB
    );
    write(&home.join("config.toml"), &settings)?;
    command.env("CODEX_HOME", home).env("SCRIPTED", "x");
    command.args(["exec", "--json", "--skip-git-repo-check", PROMPT]);
    Ok(command)
}

fn claude(set: &Set, mut command: Command) -> Result<Command, String> {
    let servers = set.place.join("servers.json");
    let server = json!({ "command": set.server, "args": [super::server::VERB] });
    write(&servers, &json!({ "mcpServers": { "stubborn": server } }).to_string())?;
    command.env("ANTHROPIC_BASE_URL", format!("http://127.0.0.1:{}", set.port)).env("ANTHROPIC_API_KEY", "x");
    for name in [
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
        "DISABLE_AUTOUPDATER",
        "DISABLE_TELEMETRY",
        "DISABLE_ERROR_REPORTING",
    ] {
        command.env(name, "1");
    }
    // Otherwise it does not run commands unasked for root, who every user is in a namespace of its own.
    command.env("IS_SANDBOX", "1");
    command.args(["-p", "--dangerously-skip-permissions", "--mcp-config"]).arg(servers).arg("--").arg(PROMPT);
    Ok(command)
}

fn opencode(set: &Set, mut command: Command) -> Result<Command, String> {
    let options = json!({ "baseURL": format!("http://127.0.0.1:{}/v1", set.port), "apiKey": "x" });
    let limit = json!({ "context": 200_000, "output": 8_000 });
    let provider = json!({
        "npm": "@ai-sdk/openai-compatible", "name": "here", "options": options,
        "models": { "scripted": { "name": "scripted", "limit": limit } },
    });
    let settings = json!({
        "autoupdate": false, "share": "disabled", "permission": "allow",
        "model": "here/scripted", "small_model": "here/scripted", "enabled_providers": ["here"],
        "mcp": { "stubborn": { "type": "local", "command": [set.server, Path::new(super::server::VERB)], "enabled": true } },
        "provider": { "here": provider },
    });
    write(&set.place.join("config/opencode/opencode.json"), &settings.to_string())?;
    for kind in ["config", "data", "state", "cache"] {
        command.env(format!("XDG_{}_HOME", kind.to_uppercase()), set.place.join(kind));
    }
    for name in ["AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD"] {
        command.env(format!("OPENCODE_DISABLE_{name}"), "1");
    }
    command.args(["run", "--format", "json", PROMPT]);
    Ok(command)
}

fn gemini(set: &Set, mut command: Command) -> Result<Command, String> {
    let settings = json!({
        "security": { "auth": { "selectedType": "gemini-api-key" } },
        "privacy": { "usageStatisticsEnabled": false }, "telemetry": { "enabled": false },
        "general": { "enableAutoUpdate": false },
        "mcpServers": { "stubborn": { "command": set.server, "args": [super::server::VERB] } },
    });
    write(&set.place.join("home/.gemini/settings.json"), &settings.to_string())?;
    command
        .env("GEMINI_API_KEY", "x")
        .env("GOOGLE_GEMINI_BASE_URL", format!("http://127.0.0.1:{}", set.port));
    command.env("GEMINI_CLI_TRUST_WORKSPACE", "true");
    command.args(["-m", "gemini-2.5-flash", "--yolo", "-o", "stream-json", "-p", PROMPT]);
    Ok(command)
}
