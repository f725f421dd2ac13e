//! The other side: pgbench, a program of PostgreSQL's own, sends the statement of our journal with rows of the same
//! kind and size, by its own prepared statements, in batches of the same size.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use lastword_core::{Fact, Job};
use lastword_store::postgres::{IDENTITY, STATEMENT, claim_statements};
use uuid::Uuid;

use super::load::{self, Running};
use crate::jobs;
use crate::pg::{Server, binary};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// How our sessions are set up.
const OPTIONS: &str =
    "-c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c jit=off -c synchronous_commit=on";

/// A script and how it is run.
pub(super) struct Script {
    /// What it says.
    pub(super) text: String,
    /// Rows one run of it counts for.
    pub(super) rows: usize,
    /// Connections.
    pub(super) clients: usize,
}

impl Script {
    /// Runs it and returns rows per second. Every run must have done what it says: `count` counts what is there.
    pub(super) async fn rate(
        &self,
        server: &Server,
        database: &str,
        seconds: u64,
        count: &str,
    ) -> Outcome<f64> {
        let client = server.client(database).await;
        let before: i64 = client.query_one(count, &[]).await?.get(0);
        let Ran { tps, runs, complaint } = self.run(server, database, seconds).await?;
        let after: i64 = client.query_one(count, &[]).await?.get(0);
        if after - before != runs as i64 * self.rows as i64 {
            return Err(
                format!("pgbench ran {runs} times, but {} rows came: {complaint}", after - before).into()
            );
        }
        Ok(tps * self.rows as f64)
    }

    /// Runs it and believes what pgbench says.
    pub(super) async fn run(&self, server: &Server, database: &str, seconds: u64) -> Outcome<Ran> {
        let file = tempfile::NamedTempFile::new()?;
        fs::write(&file, &self.text)?;
        let mut pgbench = Command::new(binary("pgbench")?);
        pgbench.args(["-n", "-M", "prepared", "-D", "first=1", "-D", "n=0", "-D", "v=0", "-U", "postgres"]);
        pgbench.args(["-T", &seconds.to_string(), "-c", &self.clients.to_string(), "-j", "2", "-f"]);
        pgbench.arg(file.path()).arg("-h").arg(server.host()).arg(database).env("PGOPTIONS", OPTIONS);
        let output = tokio::task::spawn_blocking(move || pgbench.output()).await??;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let field = |name: &str| {
            let line = said.lines().find_map(|line| line.strip_prefix(name))?;
            line.split([' ', '/']).find_map(|word| word.parse::<f64>().ok())
        };
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        match (field("tps = "), field("number of transactions actually processed: ")) {
            (Some(tps), Some(runs)) if runs > 0.0 => Ok(Ran { tps, runs, complaint }),
            _ => Err(format!("pgbench: {said}{complaint}").into()),
        }
    }
}

/// What a run of a script came to.
pub(super) struct Ran {
    /// Runs of the script per second, without the time to connect.
    tps: f64,
    /// Runs of the script.
    pub(super) runs: f64,
    /// What pgbench complained about.
    complaint: String,
}

/// What differs between the batches of a life.
struct Batch<'a> {
    size: usize,
    /// The version before, as an expression.
    expected: &'a str,
    fenced: bool,
    held: bool,
    due: bool,
    phase: &'a str,
    outcome: Option<&'a str>,
    facts: &'a [&'a str],
}

impl Batch<'_> {
    /// Returns the statement with variables of pgbench for its parameters.
    fn statement(&self) -> String {
        let Batch { size, expected, .. } = self;
        let fill = |value: &str| format!("array_fill({value}, array[{size}])");
        let text = |value: Option<&str>| {
            fill(&value.map_or("null::text".to_owned(), |value| format!("'{value}'::text")))
        };
        let only = |when: bool, value: &str, none: &str| if when { value.to_owned() } else { fill(none) };
        let each = |value: &dyn Fn(usize, &str) -> String| {
            let parts: Vec<String> =
                self.facts.iter().enumerate().map(|(place, fact)| value(place, fact)).collect();
            parts.join(" || ")
        };
        let columns = [
            ":jobs::uuid[]".to_owned(),
            fill(&format!("({expected})::bigint")),
            fill(&format!("({expected})::bigint + {}", self.facts.len())),
            ":jobs::uuid[]".to_owned(),
            only(self.fenced, ":owners::text[]", "null::text"),
            only(self.fenced, ":lives::uuid[]", "null::uuid"),
            fill(if self.fenced { "1::bigint" } else { "null::bigint" }),
            fill("false"),
            text(Some(self.phase)),
            ":queues::text[]".to_owned(),
            fill("0::smallint"),
            fill(if self.due { ":at::bigint" } else { "null::bigint" }),
            only(self.held, ":owners::text[]", "null::text"),
            only(self.held, ":lives::uuid[]", "null::uuid"),
            fill(if self.held { "1::bigint" } else { "null::bigint" }),
            text(self.outcome),
            fill("1"),
            fill("1"),
            text(None),
            text(None),
            fill(":at::bigint"),
            fill(&format!("(:at::bigint + {expected})")),
            fill("false"),
            ":summaries::text[]".to_owned(),
            each(&|_, _| ":jobs::uuid[]".to_owned()),
            each(&|place, _| fill(&format!("({expected})::bigint + {}", place + 1))),
            each(&|_, _| fill(":at::bigint")),
            each(&|_, _| ":jobs::uuid[]".to_owned()),
            each(&|_, fact| fill(&format!("'{fact}'::text"))),
            each(&|_, _| fill("1")),
            each(&|_, fact| format!(":{fact}::text[]")),
            text(None),
            fill(if self.outcome.is_some() { "1::smallint" } else { "2::smallint" }),
            // That a tree is being started and then runs is no change of state after the claim.
            fill(&if self.fenced && self.held {
                "(:at::bigint + 1)".to_owned()
            } else {
                format!("(:at::bigint + {expected})")
            }),
            ":identity".to_owned(),
            "0".to_owned(),
            text(Some("")),
            fill("null::uuid"),
        ];
        let mut sql = STATEMENT.to_owned();
        for (place, column) in columns.iter().enumerate().rev() {
            sql = sql.replace(&format!("${}::", place + 1), &format!("({column})::"));
        }
        format!("{};\n", sql.trim())
    }
}

/// Returns a list of texts as PostgreSQL writes an array.
fn literal(texts: impl IntoIterator<Item = String>) -> String {
    let quoted =
        texts.into_iter().map(|text| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")));
    format!("{{{}}}", quoted.collect::<Vec<_>>().join(","))
}

/// Makes the table that tells each connection its rows, and returns what reads it once per connection.
async fn tell(server: &Server, database: &str, clients: &[Vec<(&str, String)>]) -> Outcome<String> {
    let client = server.client(database).await;
    let names: Vec<&str> = clients.iter().flatten().map(|(name, _)| *name).take(clients[0].len()).collect();
    let columns: String = names.iter().fold(String::new(), |mut columns, name| {
        let _ = write!(columns, ", {name} text not null");
        columns
    });
    let table = format!("told_{}", Uuid::from_u128(load::fresh_id().as_uuid().as_u128()).simple());
    client.batch_execute(&format!("create table {table} (client int primary key{columns})")).await?;
    for (number, values) in clients.iter().enumerate() {
        let places: Vec<String> = (2..values.len() + 2).map(|place| format!("${place}")).collect();
        let sql = format!("insert into {table} values ($1, {})", places.join(", "));
        let number = number as i32;
        let mut given: Vec<&(dyn tokio_postgres::types::ToSql + Sync)> = vec![&number];
        given.extend(values.iter().map(|(_, value)| value as &(dyn tokio_postgres::types::ToSql + Sync)));
        client.execute(&sql, &given).await?;
    }
    let list = names.join(", ");
    Ok(format!(
        "\\if :first\nselect {list} from {table} where client = :client_id\n\\gset\n\\set first 0\n\\endif\n"
    ))
}

/// Returns the name of the journal that the statements expect.
async fn identity(server: &Server, database: &str) -> Outcome<String> {
    Ok(server.client(database).await.query_one(IDENTITY, &[]).await?.get(0))
}

fn stored(fact: &Fact) -> String {
    fact.encode().body
}

/// Returns a script that appends to running jobs, in batches of `size`. `each` are the jobs of each connection.
pub(super) async fn appends(server: &Server, database: &str, each: &[Vec<Running>]) -> Outcome<Script> {
    let size = each[0].len();
    let identity = identity(server, database).await?;
    let told: Vec<Vec<(&str, String)>> = each
        .iter()
        .map(|running| {
            let fence = load::fence(&running[0]);
            let row = &running[0].append.row;
            let summary = serde_json::to_string(&row.summary).unwrap_or_default();
            let life = Uuid::from_u128(fence.incarnation.as_u128()).to_string();
            let repeat = |text: &str| literal(vec![text.to_owned(); size]);
            vec![
                ("jobs", literal(running.iter().map(|running| running.append.job.as_uuid().to_string()))),
                ("owners", repeat(&fence.owner.0)),
                ("lives", repeat(&life)),
                ("queues", repeat(&row.group)),
                ("summaries", repeat(&summary)),
                ("spent", repeat(&stored(&running[0].append.events[0].fact))),
                ("at", row.updated_at.0.to_string()),
                ("identity", identity.clone()),
            ]
        })
        .collect();
    let begin = tell(server, database, &told).await?;
    let batch = Batch {
        size,
        expected: ":v",
        fenced: true,
        held: true,
        due: false,
        phase: "launching",
        outcome: None,
        facts: &["spent"],
    };
    // The version goes on from where the last run of this script has left it.
    let version =
        "\\if :first\nselect version as v from jobs where job = (:jobs::uuid[])[1]\n\\gset\n\\endif\n";
    let begin = begin.replace("\\set first 0\n\\endif\n", "\\endif\n");
    let text = format!("{begin}{version}\\set first 0\n{}\\set v :v + 1\n", batch.statement());
    Ok(Script { text, rows: size, clients: each.len() })
}

/// Returns a script of whole lives, `size` jobs at a time. Ids are made beforehand, enough for `lives` runs.
pub(super) async fn lives(
    server: &Server,
    database: &str,
    journal: &impl lastword_store::Journal,
    (clients, size, lives): (usize, usize, usize),
) -> Outcome<Script> {
    let table = format!("ids_{}", load::fresh_id().as_uuid().simple());
    let client = server.client(database).await;
    client
        .batch_execute(&format!(
            "create table {table} (client int, n int, jobs text, primary key (client, n))"
        ))
        .await?;
    let identity = identity(server, database).await?;
    let mut told = Vec::new();
    for number in 0..clients {
        let queue = format!("pgbench-life-{size}-{number}");
        let by = load::register(journal, &queue).await?;
        let sql = format!(
            "insert into {table} select $1, n, jobs from unnest($2::int[], $3::text[]) as t (n, jobs)"
        );
        let made: Vec<String> =
            (0..lives).map(|_| literal((0..size).map(|_| load::fresh_id().as_uuid().to_string()))).collect();
        client.execute(&sql, &[&(number as i32), &(0..lives as i32).collect::<Vec<_>>(), &made]).await?;
        let mut life = told_of_a_life(&queue, &by, size);
        life.push(("identity", identity.clone()));
        told.push(life);
    }
    let begin = tell(server, database, &told).await?;
    let next =
        format!("select jobs from {table} where client = :client_id and n = :n\n\\gset\n\\set n :n + 1\n");
    let batch = |expected, fenced, held, due, phase, outcome, facts| {
        Batch { size, expected, fenced, held, due, phase, outcome, facts }.statement()
    };
    let submit = batch("0", false, false, true, "queued", None, &["submitted"]);
    let claim = batch("1", false, true, false, "queued", None, &["claimed"]);
    let intend = batch("2", true, true, false, "launching", None, &["launch_intended"]);
    let launch = batch("3", true, true, false, "running", None, &["launched"]);
    let end = batch("4", true, false, false, "ended", Some("\"completed\""), &["attempt_ended", "last_word"]);
    let [alive, ready, logs] = claim_statements(load::fresh_id());
    let alive = alive.replace("$1", ":owner").replace("$2", ":life::uuid").replace("$3", ":queue");
    let alive = alive.replace("$4", ":identity").replace("$5", "0").replace("$6", "0");
    let given = [
        ":queue",
        ":at::bigint",
        "SIZE",
        "0::smallint",
        "0",
        "'00000000-0000-0000-0000-000000000000'::uuid",
        "'{}'",
        "1",
        "'{}'",
        "''",
    ];
    // From the last on: `$1` is the beginning of `$10`.
    let ready = given.iter().enumerate().rev().fold(ready, |sql, (place, value)| {
        sql.replace(&format!("${}", place + 1), &value.replace("SIZE", &size.to_string()))
    });
    let logs = logs.replace("$1", ":jobs");
    let text = format!(
        "{begin}{next}{submit}begin;\n{alive};\nselect array_agg(job)::text as jobs from ({ready}) c\n\\gset\n\
         {logs};\n{claim}commit;\n{intend}{launch}{end}"
    );
    Ok(Script { text, rows: size, clients })
}

fn told_of_a_life(
    queue: &str,
    by: &lastword_core::decide::claim::Claimant,
    size: usize,
) -> Vec<(&'static str, String)> {
    let (_, job) = jobs::submit(1, jobs::spec(queue), jobs::NOW);
    let claimed = lastword_core::event::Claimed {
        owner: by.owner.clone(),
        incarnation: by.incarnation,
        host: by.host.clone(),
        epoch: lastword_core::Epoch(1),
    };
    let held: Job = jobs::append(&job, None, vec![claimed.clone().into()]).1;
    let repeat = |text: &str| literal(vec![text.to_owned(); size]);
    let summary = serde_json::to_string(&lastword_core::view::row::Row::of(&job).summary).unwrap_or_default();
    let life = Uuid::from_u128(by.incarnation.as_u128()).to_string();
    let first = lastword_core::AttemptNo(1);
    let end = jobs::attempt_ended(
        first,
        lastword_core::outcome::Outcome::Completed,
        lastword_core::outcome::Cause::Finished,
    );
    vec![
        ("owner", by.owner.0.to_string()),
        ("life", life.clone()),
        ("queue", queue.to_owned()),
        ("owners", repeat(&by.owner.0)),
        ("lives", repeat(&life)),
        ("queues", repeat(queue)),
        ("summaries", repeat(&summary)),
        ("at", jobs::NOW.0.to_string()),
        ("submitted", repeat(&stored(&jobs::submitted(jobs::spec(queue))))),
        ("claimed", repeat(&stored(&claimed.into()))),
        ("launch_intended", repeat(&stored(&jobs::launch_intended(&held)))),
        ("launched", repeat(&stored(&jobs::launched(first)))),
        ("attempt_ended", repeat(&stored(&end))),
        ("last_word", repeat(&stored(&jobs::last_word(Some(first))))),
    ]
}
