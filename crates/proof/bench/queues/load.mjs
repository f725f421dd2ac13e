// What is asked of both queues of Node.js. Each has its own way to add jobs and to count those that are left.
//
//   life SECONDS    adds jobs in bulk and runs them for so long, until none is left; prints jobs per second
//   pickup COUNT    adds so many jobs, one at a time; prints the milliseconds from each call until its handler starts

// Jobs of one call, and how many may wait: enough that neither side ever waits for the other.
export const BATCH = 500;
const WAITING_MAX = 8 * BATCH;

export const [what, amount] = [process.argv[2], Number(process.argv[3])];

let started = 0;
let onStart = () => {};

// Called by a handler, with the number of jobs that it was given.
export function begin(jobs) {
  started += jobs;
  onStart();
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function life(queue, seconds) {
  const begun = performance.now();
  let added = 0;
  started = 0;
  while (performance.now() - begun < seconds * 1000) {
    if (added - started > WAITING_MAX) {
      await pause(1);
      continue;
    }
    await queue.addBatch();
    added += BATCH;
  }
  while (started < added || (await queue.left()) > 0) await pause(1);
  return [added / ((performance.now() - begun) / 1000)];
}

async function pickup(queue, count) {
  const times = [];
  for (let n = 0; n < count; n += 1) {
    await pause(15 + Math.random() * 10);
    let end;
    const handled = new Promise((resolve) => (onStart = () => resolve((end = performance.now()))));
    const begun = performance.now();
    await queue.addOne();
    await handled;
    times.push(end - begun);
  }
  return times;
}

export async function measure(queue) {
  // The first jobs meet code that Node.js has not compiled yet: they do not count.
  if (what === "life") await life(queue, 1);
  for (const figure of await (what === "life" ? life(queue, amount) : pickup(queue, amount))) console.log(figure);
}
