//! Recognises agents and MCP servers by how they were started.
//!
//! A word somewhere in a command line means nothing: `vim claude` is an editor. What counts is the program itself or, for an interpreter
//! or package runner, the script or package it runs.

use std::path::Path;

/// Names of agents and MCP servers. `*` at one end stands for any characters.
const NAMES: &[&str] = &[
    "aider",
    "amp",
    "auggie",
    "claude",
    "claude-code",
    "codex",
    "copilot",
    "crush",
    "cursor-agent",
    "droid",
    "gemini",
    "gemini-cli",
    "goose",
    "goosed",
    "opencode",
    "opencode-ai",
    "qwen",
    "qwen-code",
    "*-acp",
    "*-mcp",
    "*-mcp-server",
    "mcp-server",
    "mcp-server-*",
    "mcp_server_*",
    "mcp-remote",
    "@modelcontextprotocol",
    "@playwright/mcp",
];

/// Programs that run another program: the first argument that is neither an option nor one of these subcommands.
const RUNNERS: &[(&str, &[&str])] = &[
    ("node", &[]),
    ("nodejs", &[]),
    ("python*", &[]),
    ("bun", &["run", "x"]),
    ("bunx", &[]),
    ("deno", &["run"]),
    ("npm", &["exec", "x"]),
    ("npx", &[]),
    ("pnpm", &["dlx", "exec"]),
    ("yarn", &["dlx", "exec"]),
    ("uv", &["tool", "run", "uvx"]),
    ("uvx", &[]),
    ("pipx", &["run"]),
];

/// Shells, which run the argument of `-c`.
const SHELLS: &[&str] = &["sh", "bash", "dash", "zsh"];

/// Options of runners that take a value.
const WITH_VALUE: &[&str] =
    &["-r", "--require", "--import", "--loader", "-X", "-W", "-p", "--package", "--from", "--with"];

/// Options that take code instead of a script.
const CODE: &[&str] = &["-e", "--eval", "-c", "--print"];

/// The kernel truncates process names to this length.
const COMM_BYTES: usize = 15;

/// Returns the name by which a process is known as an agent or MCP server, from its arguments, process name and executable.
pub(super) fn name_of(argv: &[String], comm: &str, exe: Option<&Path>) -> Option<&'static str> {
    // A program that set its title has it as its only argument.
    let words: Vec<&str> = match argv {
        [title] => title.split_ascii_whitespace().collect(),
        _ => argv.iter().map(String::as_str).collect(),
    };
    let (program, arguments) = words.split_first()?;
    let name = base(program);
    if let Some(known) = listed(name) {
        // Any program can be started under this name; check it against what was executed.
        let cut = &name[..name.floor_char_boundary(COMM_BYTES)];
        return (comm == cut || exe.is_some_and(|exe| known_part(exe).is_some())).then_some(known);
    }
    run_by(name, arguments)
}

/// Reports whether a name is that of an MCP server rather than an agent.
pub(super) fn is_server(known: &str) -> bool {
    known.contains("mcp") || known.contains("modelcontextprotocol")
}

/// Returns the known name of what a runner or shell runs.
fn run_by(program: &str, arguments: &[&str]) -> Option<&'static str> {
    if SHELLS.contains(&program) {
        return match arguments {
            ["-c" | "-lc", line, ..] => run_by_shell(line),
            _ => None,
        };
    }
    let (_, verbs) = RUNNERS.iter().find(|(runner, _)| fits(runner, program))?;
    let mut words = arguments.iter().copied();
    while let Some(word) = words.next() {
        if word == "-m" {
            return words.next().and_then(|module| known_part(Path::new(module)));
        } else if CODE.contains(&word) {
            return None;
        } else if WITH_VALUE.contains(&word) {
            words.next();
        } else if !word.starts_with('-') && !verbs.contains(&word) {
            return known_part(Path::new(word));
        }
    }
    None
}

/// Returns the known name of the first command of a shell command line.
fn run_by_shell(line: &str) -> Option<&'static str> {
    let words: Vec<&str> = line.split_ascii_whitespace().filter(|word| *word != "exec").collect();
    let (program, arguments) = words.split_first()?;
    let name = base(program);
    let is_shell = SHELLS.contains(&name);
    listed(name).or_else(|| if is_shell { None } else { run_by(name, arguments) })
}

/// Returns the known name in a path or package name, ignoring a version and a file extension.
fn known_part(path: &Path) -> Option<&'static str> {
    let text = path.to_string_lossy();
    let whole = without_version(&text);
    if let Some(known) = listed(whole) {
        return Some(known);
    }
    // Folders in a home or project can have any name; those of installed packages are named after the package.
    let installed = ["node_modules/", "site-packages/", "/uv/", ".local/share/"];
    let tail = installed
        .iter()
        .filter_map(|at| whole.rsplit_once(at))
        .map(|(_, tail)| tail)
        .min_by_key(|tail| tail.len());
    let in_package = tail.and_then(|tail| tail.split('/').find_map(named));
    let in_scope = || whole.strip_prefix('@').and_then(|_| whole.split('/').find_map(named));
    in_package.or_else(in_scope).or_else(|| named(base(whole)))
}

/// Returns the known name of a path component, ignoring its version and extension.
fn named(part: &str) -> Option<&'static str> {
    let stem =
        [".js", ".mjs", ".cjs", ".ts", ".py"].iter().find_map(|end| part.strip_suffix(end)).unwrap_or(part);
    listed(without_version(stem))
}

fn listed(name: &str) -> Option<&'static str> {
    NAMES.iter().copied().find(|known| fits(known, name))
}

/// Removes a version: `name@1.2` becomes `name`, while a scope such as `@scope/name` stays.
fn without_version(package: &str) -> &str {
    match package.rfind('@') {
        Some(at) if at > 0 && !package[at..].contains('/') => &package[..at],
        _ => package,
    }
}

fn base(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

fn fits(pattern: &str, name: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(end), _) => name.len() > end.len() && name.ends_with(end),
        (_, Some(start)) => name.starts_with(start),
        _ => pattern == name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(line: &str) -> bool {
        let argv: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let comm: String = base(&argv[0]).chars().take(COMM_BYTES).collect();
        name_of(&argv, &comm, None).is_some()
    }

    #[test]
    fn agents_and_servers_are_recognised_by_what_runs() {
        for line in [
            "claude --continue",
            "/home/a/.local/bin/codex exec",
            "/opt/x/claude-code-acp",
            "/usr/bin/mcp-server-filesystem /tmp",
            "node /usr/lib/node_modules/@anthropic-ai/claude-code/cli.js",
            "node --require ./x.js --max-old-space-size=4096 /home/a/.npm/_npx/7/node_modules/.bin/mcp-server-memory",
            "/usr/bin/node /home/a/node_modules/@modelcontextprotocol/server-github/dist/index.js",
            "npx -y @modelcontextprotocol/server-everything@1.0.2",
            "npm exec mcp-remote https://example.org/sse",
            "uv tool uvx mcp-server-fetch",
            "uvx --from git+https://example.org/x mcp-server-git",
            "python3.12 -m mcp_server_time",
            "/home/a/.cache/uv/archive-v0/x/bin/python /home/a/.cache/uv/archive-v0/x/bin/mcp-server-fetch",
            "bun run /srv/weather-mcp.ts",
            "deno run -A /srv/mcp-server.ts",
        ] {
            assert!(known(line), "{line}");
        }
        let line = ["sh", "-c", "exec mcp-server-memory --x"].map(str::to_owned);
        assert_eq!(name_of(&line, "sh", None), Some("mcp-server-*"));
        let titled = ["npm exec @modelcontextprotocol/server-x /tmp".to_owned()];
        assert_eq!(name_of(&titled, "npm exec @model", None), Some("@modelcontextprotocol"));
        for (known, server) in
            [("mcp-server-*", true), ("@playwright/mcp", true), ("claude", false), ("*-acp", false)]
        {
            assert_eq!(is_server(known), server, "{known}");
        }
    }

    #[test]
    fn a_lookalike_is_not_recognised() {
        for line in [
            "vim claude",
            "tail -f mcp-server-memory",
            "claudette",
            "claude.bak",
            "-acp",
            "python3 /home/a/claude/train.py",
            "python3 /home/a/notes_about_claude.py",
            "python3 -c import/claude claude",
            "node -e claude codex",
            "node server.js claude",
            "npm run claude-notes",
            "grep -r codex .",
            "sh claude",
        ] {
            assert!(!known(line), "{line}");
        }
        assert_eq!(name_of(&["sh".to_owned(), "-c".to_owned(), "vim claude".to_owned()], "sh", None), None);
        assert_eq!(name_of(&[], "claude", None), None, "a kernel thread has no arguments");
    }

    #[test]
    fn a_borrowed_name_is_checked_against_the_executable() {
        let argv = ["claude".to_owned(), "300".to_owned()];
        assert_eq!(name_of(&argv, "sleep", Some(Path::new("/usr/bin/sleep"))), None);
        let own = Path::new("/home/a/.local/share/claude/versions/2.0.1");
        assert_eq!(name_of(&argv, "MainThread", Some(own)), Some("claude"));
    }
}
