// graphile-worker beside our journal, with the batching that its page on performance gives. `load.mjs` has what can be asked.
//
// PGHOST, PGUSER and PGDATABASE name the database. The folder it runs in has the package.
import { createRequire } from "node:module";
import { BATCH, begin, measure } from "./load.mjs";

const { Logger, makeWorkerUtils, run } = createRequire(`${process.cwd()}/`)("graphile-worker");

const logger = new Logger(() => () => {});
const batching = { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 };
const worker = { connectionString: "postgres:///", concurrentJobs: 24, maxPoolSize: 25, logger, ...batching };
const preset = { worker };
const taskList = { nothing: async () => begin(1) };
const utils = await makeWorkerUtils({ preset });
await utils.migrate();
const runner = await run({ preset, taskList });

const left = () =>
  utils.withPgClient(async (client) => {
    const { rows } = await client.query("select count(*)::int as jobs from graphile_worker._private_jobs");
    return rows[0].jobs;
  });

await measure({
  addBatch: () => utils.addJobs(Array.from({ length: BATCH }, () => ({ identifier: "nothing", payload: {} }))),
  addOne: () => utils.addJob("nothing", {}),
  left,
});
await runner.stop();
await utils.release();
process.exit(0);
