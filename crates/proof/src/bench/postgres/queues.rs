//! Whole lives of jobs that do nothing, beside other queues on the same server.

use lastword_core::worker_labels::WorkerLabels;

use super::super::table::{Goal, Line};
use super::load;
use super::others::{Installed, Other};
use super::plan::{BATCHES, Outcome, Plan, WRITERS, open};
use crate::pg::Server;

/// How often our rate must be theirs.
const GOALS: [(Other, f64); 3] = [(Other::GraphileWorker, 2.0), (Other::PgBoss, 3.5), (Other::Apalis, 3.5)];

/// Compares rates. Theirs add jobs in bulk while they run others, as ours do.
pub(super) async fn queues(plan: &Plan<'_>, server: &Server) -> Outcome<Vec<Line>> {
    let installed = Installed::get(&GOALS.map(|(other, _)| other))?;
    let (own, batch) = (server.database().await, BATCHES[BATCHES.len() - 1]);
    let journal = open(server, &own, batch, true).await?;
    let mut sides = Vec::new();
    for (other, goal) in GOALS {
        sides.push((other, goal, server.database().await, Vec::new()));
    }
    let (any, mut rates) = (WorkerLabels::default(), Vec::new());
    for round in 0..plan.rounds {
        let rate = load::life_rate(&any, &journal, &journal, 2 * WRITERS, batch, plan.time()).await?;
        let mut told = format!("queues, round {round}: {rate:.0}");
        rates.push(rate);
        for (other, _, database, beside) in &mut sides {
            let figures = installed.run(*other, (server, database), ("life", plan.seconds)).await?;
            told = format!("{told} / {} {:.0}", other.name(), figures[0]);
            beside.push(figures[0]);
        }
        eprintln!("{told}");
    }
    drop(journal);
    let mut lines = Vec::new();
    for (other, goal, database, mut beside) in sides {
        let name = format!("whole lives, journal / {}", other.name());
        lines.push(Line::of(&name, "jobs/s", &mut rates, &mut beside, Goal::AtLeast(goal)));
        server.drop_database(&database).await;
    }
    server.drop_database(&own).await;
    Ok(lines)
}
