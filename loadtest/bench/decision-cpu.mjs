// How much CPU does a decision cost Redis, with 1, 4, 16 and 64 callers at once?
//
// Method: a Redis of its own with `appendfsync always`, without API and worker. The callers call the SaleStore of the
// product, and each makes its next checkout when the last one has returned. So Redis gets single calls, pipelines or
// batches, as the product combines them. The result is the CPU of the Redis process, socket and file included, divided
// by the checkouts. The numbers of callers run in turn; medians of the rounds. `--instructions` counts instructions
// instead (decision-instructions.mjs), which do not depend on the machine. Goal: no worse than before / ≤ 40 / ≤ 25 / ≤
// 18 µs.
// Last record (2026-11-23, 500719d, load 0.4): us_1 169.9, us_4 64.7, us_16 30.9, us_64 24.8, per_second_1 3079.7, per_second_4 8947.3, per_second_16 22007.7, per_second_64 30340.3
import { connectSale } from './decisions.mjs';
import { startEngine } from './engine.mjs';
import { ROOT } from './environment.mjs';
import { cpuMicros, last, median, round } from './measure.mjs';

const ROUNDS = 7;
/** Callers → checkouts in a round. */
export const LEVELS = new Map([
  [1, 1_500],
  [4, 3_000],
  [16, 6_000],
  [64, 9_600],
]);

/** Starts its own Redis, and nothing else. */
export const needsEnvironment = false;

/** @param {null} _environment @param {(text: string) => void} say @param {string} [root] */
export async function run(_environment, say, root = ROOT) {
  const engine = await startEngine();
  try {
    const sale = await connectSale(root, engine.url);
    const product = await sale.open();
    /** @type {{ callers: number, checkouts: number, micros: number[], perSecond: number[] }[]} */
    const levels = [...LEVELS].map(([callers, checkouts]) => ({ callers, checkouts, micros: [], perSecond: [] }));
    for (const { callers, checkouts } of levels) await sale.decide(product, checkouts, callers);
    for (let i = 0; i < ROUNDS; i += 1) {
      for (const { callers, checkouts, micros, perSecond } of levels) {
        const before = cpuMicros(engine.pid);
        const ms = await sale.decide(product, checkouts, callers);
        micros.push((cpuMicros(engine.pid) - before) / checkouts);
        perSecond.push((checkouts / ms) * 1000);
      }
      say(`round ${i + 1}: ${levels.map(({ callers, micros }) => `${callers}: ${round(last(micros))} µs`).join(', ')}`);
    }
    sale.close();
    const of = (/** @type {string} */ name, /** @type {'micros' | 'perSecond'} */ values) =>
      levels.map((level) => [`${name}_${level.callers}`, round(median(level[values]))]);
    return {
      ...Object.fromEntries([...of('us', 'micros'), ...of('per_second', 'perSecond')]),
      goal: 'no worse than before / ≤ 40 / ≤ 25 / ≤ 18 µs',
    };
  } finally {
    await engine.stop();
  }
}
