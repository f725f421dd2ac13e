// pg-boss beside our journal, with batches, bursts and notifications.
//
//   life SECONDS    adds jobs in bulk and runs them for so long, until all are completed; prints jobs per second
//   pickup COUNT    adds so many jobs, one at a time; prints the milliseconds from each call until its handler starts
//
// PGHOST, PGUSER and PGDATABASE name the database. The folder it runs in has the package.
import { createRequire } from "node:module";

const { PgBoss } = createRequire(`${process.cwd()}/`)("pg-boss");
const [what, amount] = [process.argv[2], Number(process.argv[3])];

// Jobs of one call, and how many may wait: enough that neither side ever waits for the other.
const BATCH = 500;
const WAITING_MAX = 8 * BATCH;

const boss = new PgBoss({ connectionString: "postgres:///", max: 25, useListenNotify: true, schedule: false });
boss.on("error", (error) => console.error(error));
await boss.start();
await boss.createQueue("nothing", { notify: true });
let started = 0;
let onStart = () => {};
const options = { pollingIntervalSeconds: 0.5, localConcurrency: 4 };
if (what === "life") Object.assign(options, { batchSize: BATCH, burstWhenBatchFull: true });
await boss.work("nothing", options, async (jobs) => void (started += jobs.length, onStart()));

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const left = async () => {
  const { rows } = await boss
    .getDb()
    .executeSql("select count(*)::int as jobs from pgboss.job where name = 'nothing' and state < 'completed'");
  return rows[0].jobs;
};

async function life(seconds) {
  const begun = performance.now();
  let added = 0;
  started = 0;
  while (performance.now() - begun < seconds * 1000) {
    if (added - started > WAITING_MAX) {
      await pause(1);
      continue;
    }
    await boss.insert("nothing", Array.from({ length: BATCH }, () => ({ data: {} })));
    added += BATCH;
  }
  while (started < added || (await left()) > 0) await pause(1);
  return [added / ((performance.now() - begun) / 1000)];
}

async function pickup(count) {
  const times = [];
  for (let n = 0; n < count; n += 1) {
    await pause(15 + Math.random() * 10);
    let end;
    const handled = new Promise((resolve) => (onStart = () => resolve((end = performance.now()))));
    const begun = performance.now();
    await boss.send("nothing", {});
    await handled;
    times.push(end - begun);
  }
  return times;
}

// The first jobs meet code that Node.js has not compiled yet: they do not count.
if (what === "life") await life(1);
for (const figure of await (what === "life" ? life(amount) : pickup(amount))) console.log(figure);
await boss.stop({ graceful: false });
process.exit(0);
