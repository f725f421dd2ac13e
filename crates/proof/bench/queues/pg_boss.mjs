// pg-boss beside our journal, with batches, bursts and notifications. `load.mjs` has what can be asked.
//
// PGHOST, PGUSER and PGDATABASE name the database. The folder it runs in has the package.
import { createRequire } from "node:module";
import { BATCH, begin, measure, what } from "./load.mjs";

const { PgBoss } = createRequire(`${process.cwd()}/`)("pg-boss");

const boss = new PgBoss({ connectionString: "postgres:///", max: 25, useListenNotify: true, schedule: false });
boss.on("error", (error) => console.error(error));
await boss.start();
await boss.createQueue("nothing", { notify: true });
const options = { pollingIntervalSeconds: 0.5, localConcurrency: 4 };
if (what === "life") Object.assign(options, { batchSize: BATCH, burstWhenBatchFull: true });
await boss.work("nothing", options, async (jobs) => begin(jobs.length));

const left = async () => {
  const { rows } = await boss
    .getDb()
    .executeSql("select count(*)::int as jobs from pgboss.job where name = 'nothing' and state < 'completed'");
  return rows[0].jobs;
};

await measure({
  addBatch: () => boss.insert("nothing", Array.from({ length: BATCH }, () => ({ data: {} }))),
  addOne: () => boss.send("nothing", {}),
  left,
});
await boss.stop({ graceful: false });
process.exit(0);
