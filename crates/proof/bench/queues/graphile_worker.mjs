// graphile-worker beside our journal, with the batching that its page on performance gives.
//
//   life SECONDS    adds jobs in bulk and runs them for so long, until all rows are gone; prints jobs per second
//   pickup COUNT    adds so many jobs, one at a time; prints the milliseconds from each call until its handler starts
//
// PGHOST, PGUSER and PGDATABASE name the database. The folder it runs in has the package.
import { createRequire } from "node:module";

const { Logger, makeWorkerUtils, run } = createRequire(`${process.cwd()}/`)("graphile-worker");
const [what, amount] = [process.argv[2], Number(process.argv[3])];

// Jobs of one call, and how many may wait: enough that neither side ever waits for the other.
const BATCH = 500;
const WAITING_MAX = 8 * BATCH;

const logger = new Logger(() => () => {});
const batching = { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 };
const worker = { connectionString: "postgres:///", concurrentJobs: 24, maxPoolSize: 25, logger, ...batching };
const preset = { worker };
let started = 0;
let onStart = () => {};
const taskList = { nothing: async () => void (started += 1, onStart()) };
const utils = await makeWorkerUtils({ preset });
await utils.migrate();
const runner = await run({ preset, taskList });

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const left = () =>
  utils.withPgClient(async (client) => {
    const { rows } = await client.query("select count(*)::int as jobs from graphile_worker._private_jobs");
    return rows[0].jobs;
  });

async function life(seconds) {
  const begun = performance.now();
  let added = 0;
  started = 0;
  while (performance.now() - begun < seconds * 1000) {
    if (added - started > WAITING_MAX) {
      await pause(1);
      continue;
    }
    await utils.addJobs(Array.from({ length: BATCH }, () => ({ identifier: "nothing", payload: {} })));
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
    await utils.addJob("nothing", {});
    await handled;
    times.push(end - begun);
  }
  return times;
}

// The first jobs meet code that Node.js has not compiled yet: they do not count.
if (what === "life") await life(1);
for (const figure of await (what === "life" ? life(amount) : pickup(amount))) console.log(figure);
await runner.stop();
await utils.release();
process.exit(0);
