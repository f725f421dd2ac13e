//! The agents: where each is fetched from, and how it is set up to speak to our model server only.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

/// An agent.
pub(crate) struct Agent {
    /// As its program is called.
    pub(crate) name: &'static str,
    /// Its package, with the version that this was tried with: they change every week.
    package: &'static str,
    /// Its program below the packages, where a word in braces stands for this machine. The program itself, not what starts it:
    /// that would be one more process, and not pass signals on.
    program: &'static str,
    /// Writes its settings, and returns what they want in the environment.
    set_up: fn(&Home) -> Result<Environment, String>,
    /// The words that have it answer one prompt and end, if the trials of that know it.
    pub(crate) once: Option<fn(&Home, &str) -> Vec<OsString>>,
}

/// What an agent has in its environment.
pub(crate) type Environment = Vec<(String, OsString)>;

/// What an agent is set up with: nothing of it is shared with another.
pub(crate) struct Home<'a> {
    /// Everything of it lies here.
    pub(crate) place: &'a Path,
    /// Where its model is.
    pub(crate) port: u16,
    /// A tool server that it is to start.
    pub(crate) server: Option<(&'a Path, &'static str)>,
    /// Whether it asks before it runs something, as far as its settings say so.
    pub(crate) asks: bool,
}

pub(crate) const AGENTS: &[Agent] = &[
    Agent {
        name: "claude",
        package: "@anthropic-ai/claude-code@2.1.325",
        program: "@anthropic-ai/claude-code-linux-{node}/claude",
        set_up: claude,
        once: Some(|home, prompt| {
            let servers = home.place.join(CLAUDE_SERVERS).into_os_string();
            let words = ["-p", "--dangerously-skip-permissions", "--mcp-config"].map(OsString::from);
            words.into_iter().chain([servers, "--".into(), prompt.into()]).collect()
        }),
    },
    Agent {
        name: "codex",
        package: "@openai/codex@0.166.0",
        program: "@openai/codex-linux-{node}/vendor/{rust}-unknown-linux-musl/bin/codex",
        set_up: codex,
        once: Some(|_, prompt| {
            ["exec", "--json", "--skip-git-repo-check", prompt].map(OsString::from).into()
        }),
    },
    Agent {
        name: "goose",
        package: "@aaif/goose-binary-linux-{node}@1.52.0",
        program: "@aaif/goose-binary-linux-{node}/bin/goose",
        set_up: goose,
        once: None,
    },
    Agent {
        name: "opencode",
        package: "opencode-ai@1.18.33",
        program: "opencode-linux-{node}/bin/opencode",
        set_up: opencode,
        once: Some(|_, prompt| ["run", "--format", "json", prompt].map(OsString::from).into()),
    },
    Agent {
        name: "gemini",
        package: "@google/gemini-cli@0.61.0",
        program: "@google/gemini-cli/bundle/gemini.js",
        set_up: gemini,
        once: Some(|_, prompt| {
            let words = ["-m", "gemini-2.5-flash", "--yolo", "-o", "stream-json", "-p", prompt];
            words.map(OsString::from).into()
        }),
    },
];

/// Where the tool servers of claude are written down, when it is told of them.
const CLAUDE_SERVERS: &str = "servers.json";

/// The first Node that runs an agent which is no program of its own.
const NODE_LEAST: u32 = 20;

/// Returns agents by their names, separated by commas.
pub(crate) fn named(names: &str) -> Result<Vec<&'static Agent>, String> {
    let find = |name: &str| AGENTS.iter().find(|agent| agent.name == name);
    names.split(',').map(|name| find(name).ok_or_else(|| format!("there is no agent `{name}`"))).collect()
}

impl Agent {
    /// Returns its package, as the registry knows it.
    pub(crate) fn package(&self) -> String {
        for_this_machine(self.package)
    }

    /// Returns the version that is tried.
    pub(crate) fn version(&self) -> &'static str {
        self.package.rsplit('@').next().unwrap_or_default()
    }

    /// Returns its program below a folder of packages.
    pub(crate) fn program(&self, packages: &Path) -> PathBuf {
        packages.join("node_modules").join(for_this_machine(self.program))
    }

    /// Reports whether it is run by Node.
    fn is_script(&self) -> bool {
        self.program.ends_with(".js")
    }

    /// Says what this machine lacks for it.
    pub(crate) fn missing(&self) -> Option<String> {
        if !self.is_script() {
            return None;
        }
        let said = Command::new("node").arg("--version").output().ok()?;
        let version = String::from_utf8_lossy(&said.stdout).trim().to_owned();
        let major =
            version.strip_prefix('v').and_then(|version| version.split('.').next()?.parse::<u32>().ok());
        (major.unwrap_or(0) < NODE_LEAST)
            .then(|| format!("it needs Node {NODE_LEAST}, and here is {version}"))
    }

    /// Puts it into a folder under the name that people call it by.
    pub(crate) fn link(&self, packages: &Path, folder: &Path) -> Result<PathBuf, String> {
        let (program, link) = (self.program(packages), folder.join(self.name));
        let failed = |error: std::io::Error| format!("{}: {error}", link.display());
        if !self.is_script() {
            return symlink(program, &link).map_err(failed).map(|()| link);
        }
        let text = format!("#!/bin/sh\nexec node {} \"$@\"\n", program.display());
        fs::write(&link, text).map_err(failed)?;
        fs::set_permissions(&link, fs::Permissions::from_mode(0o755)).map_err(failed)?;
        Ok(link)
    }

    /// Sets it up, and returns all that it is to have in its environment.
    pub(crate) fn environment(&self, home: &Home) -> Result<Environment, String> {
        let folder = |name: &str| {
            let folder = home.place.join(name);
            fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
            Ok::<OsString, String>(folder.into())
        };
        let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
        let mut all = vec![
            ("PATH".to_owned(), path),
            ("HOME".to_owned(), folder("home")?),
            ("TMPDIR".to_owned(), folder("tmp")?),
        ];
        all.extend(pairs(&[("TERM", "dumb"), ("NO_COLOR", "1"), ("LANG", "C.UTF-8")]));
        all.extend(self.settings(home)?);
        Ok(all)
    }

    /// Writes its settings, and returns the part of its environment that is its own.
    pub(crate) fn settings(&self, home: &Home) -> Result<Environment, String> {
        (self.set_up)(home)
    }
}

fn for_this_machine(text: &str) -> String {
    let (node, rust) = match std::env::consts::ARCH {
        "aarch64" => ("arm64", "aarch64"),
        "x86_64" => ("x64", "x86_64"),
        other => (other, other),
    };
    text.replace("{node}", node).replace("{rust}", rust)
}

fn pairs(pairs: &[(&str, &str)]) -> Environment {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), value.into())).collect()
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(path, text))
        .map_err(|error| format!("{}: {error}", path.display()))
}

fn claude(home: &Home) -> Result<Environment, String> {
    if let Some((server, verb)) = home.server {
        let server = json!({ "command": server, "args": [verb] });
        let servers = json!({ "mcpServers": { "stubborn": server } });
        write(&home.place.join(CLAUDE_SERVERS), &servers.to_string())?;
    }
    let mut environment = pairs(&[
        ("ANTHROPIC_API_KEY", "x"),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
        ("DISABLE_AUTOUPDATER", "1"),
        ("DISABLE_TELEMETRY", "1"),
        ("DISABLE_ERROR_REPORTING", "1"),
        // It goes on trying for minutes otherwise.
        ("CLAUDE_CODE_MAX_RETRIES", "1"),
        // Otherwise it refuses to run commands unasked as root, and every user is root in a namespace of its own.
        ("IS_SANDBOX", "1"),
    ]);
    environment.push(("CLAUDE_CONFIG_DIR".to_owned(), home.place.join("home/.claude").into()));
    environment.push(("ANTHROPIC_BASE_URL".to_owned(), format!("http://127.0.0.1:{}", home.port).into()));
    Ok(environment)
}

fn codex(home: &Home) -> Result<Environment, String> {
    let folder = home.place.join("codex");
    let port = home.port;
    // The client that starts codex says what it may do; this is for clients that do not.
    let free = if home.asks { "" } else { "approval_policy = \"never\"\n" };
    let mut settings = format!(
        "model = \"scripted\"\nmodel_provider = \"here\"\n{free}sandbox_mode = \"danger-full-access\"\n\
         check_for_update_on_startup = false\n\
         [features]\nplugins = false\napps = false\n[analytics]\nenabled = false\n\
         [model_providers.here]\nname = \"here\"\nbase_url = \"http://127.0.0.1:{port}/v1\"\nwire_api = \"responses\"\n\
         env_key = \"SCRIPTED\"\nrequest_max_retries = 1\nstream_max_retries = 1\nstream_idle_timeout_ms = 600000\n"
    );
    if let Some((server, verb)) = home.server {
        let server = server.display();
        settings.push_str(&format!("[mcp_servers.stubborn]\ncommand = \"{server}\"\nargs = [\"{verb}\"]\n"));
    }
    write(&folder.join("config.toml"), &settings)?;
    let mut environment = pairs(&[("SCRIPTED", "x")]);
    environment.push(("CODEX_HOME".to_owned(), folder.into()));
    Ok(environment)
}

fn goose(home: &Home) -> Result<Environment, String> {
    let mut environment = pairs(&[
        ("GOOSE_PROVIDER", "openai"),
        ("GOOSE_MODEL", "gpt-4o"),
        ("OPENAI_API_KEY", "x"),
        ("GOOSE_MODE", if home.asks { "approve" } else { "auto" }),
        ("GOOSE_DISABLE_KEYRING", "1"),
        ("GOOSE_TELEMETRY_ENABLED", "false"),
    ]);
    environment.push(("OPENAI_HOST".to_owned(), format!("http://127.0.0.1:{}", home.port).into()));
    Ok(environment)
}

fn opencode(home: &Home) -> Result<Environment, String> {
    let options = json!({ "baseURL": format!("http://127.0.0.1:{}/v1", home.port), "apiKey": "x" });
    let limit = json!({ "context": 200_000, "output": 8_000 });
    let model = json!({ "name": "scripted", "limit": limit, "cost": { "input": 1, "output": 2 } });
    let mut thinking = model.clone();
    thinking["reasoning"] = true.into();
    let provider = json!({
        "npm": "@ai-sdk/openai-compatible", "name": "here", "options": options,
        "models": { "scripted": model, "other": model, "thinking": thinking },
    });
    let mut settings = json!({
        "autoupdate": false, "share": "disabled", "permission": if home.asks { "ask" } else { "allow" },
        "model": "here/scripted", "small_model": "here/scripted", "enabled_providers": ["here"],
        "provider": { "here": provider },
    });
    if let Some((server, verb)) = home.server {
        let command = [server, Path::new(verb)];
        settings["mcp"] = json!({ "stubborn": { "type": "local", "command": command, "enabled": true } });
    }
    write(&home.place.join("config/opencode/opencode.json"), &settings.to_string())?;
    let mut environment = Environment::new();
    for kind in ["config", "data", "state", "cache"] {
        environment.push((format!("XDG_{}_HOME", kind.to_uppercase()), home.place.join(kind).into()));
    }
    for name in ["AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD"] {
        environment.push((format!("OPENCODE_DISABLE_{name}"), "1".into()));
    }
    Ok(environment)
}

fn gemini(home: &Home) -> Result<Environment, String> {
    let mut settings = json!({
        "security": { "auth": { "selectedType": "gemini-api-key" } },
        "privacy": { "usageStatisticsEnabled": false }, "telemetry": { "enabled": false },
        "general": { "enableAutoUpdate": false }, "model": { "name": "gemini-2.5-flash" },
    });
    if let Some((server, verb)) = home.server {
        settings["mcpServers"] = json!({ "stubborn": { "command": server, "args": [verb] } });
    }
    write(&home.place.join("home/.gemini/settings.json"), &settings.to_string())?;
    let mut environment = pairs(&[
        ("GEMINI_API_KEY", "x"),
        ("GEMINI_CLI_TRUST_WORKSPACE", "true"),
        ("GEMINI_CLI_NO_RELAUNCH", "true"),
    ]);
    environment.push(("GOOGLE_GEMINI_BASE_URL".to_owned(), format!("http://127.0.0.1:{}", home.port).into()));
    Ok(environment)
}
