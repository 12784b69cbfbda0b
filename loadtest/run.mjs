// Runs one load test from its campaigns to its verdict: what scenarios work with, and what is checked afterwards.
import { randomBytes } from 'node:crypto';
import { stopStragglers } from '../scripts/processes.mjs';
import { pause, until } from '../scripts/waiting.mjs';
import { runArtillery, wholeScript } from './artillery.mjs';
import { findFailures } from './assertions.mjs';
import { progress } from './progress.mjs';
import { quantile, Tally } from './tally.mjs';
import { operate } from './target.mjs';
import { requireLedger, takeVerdicts } from './verdict.mjs';

/** Long enough for most scenarios on a slow machine; a forgotten load ends by itself. */
const LOAD_LIMIT_MS = 120_000;
const STOP_LIMIT_MS = 1_000;
const SETTLE_LIMIT_MS = 60_000;

/**
 * @typedef {import('./target.mjs').Target} Target
 * @typedef {import('./scenario.js').CampaignStats} CampaignStats
 * @typedef {{ what: string, holds: boolean, found: unknown }} Check
 */

export class LoadRun {
  /** Names of people and campaigns of this run. */
  id = `${Date.now().toString(36)}-${randomBytes(2).toString('hex')}`;
  tally = new Tally();
  /** @type {string[]} */
  products = [];
  /** @type {Check[]} */
  checks = [];
  /** Stock and line of the first campaign, once a second. @type {({ second: number } & Record<string, number>)[]} */
  stock = [];
  /** @type {Record<string, number | string>} */
  facts = {};
  /** @type {Map<string, number>} */
  expected = new Map();

  /**
   * @param {Target} target
   * @param {(text: string) => void} say
   * @param {{ stage?: import('./stage.mjs').Stage | null, limitMs?: number | undefined }} [options] stage: the engines
   *   and services of this run; limitMs: of the load
   */
  constructor(target, say, { stage = null, limitMs = LOAD_LIMIT_MS } = {}) {
    this.target = target;
    this.say = say;
    this.stage = stage;
    this.limitMs = limitMs;
  }

  /**
   * Creates a campaign that the verdict checks.
   * @param {string} name
   * @param {Record<string, unknown>} terms
   * @returns {Promise<string>} its product id
   */
  async openCampaign(name, terms) {
    const product = `load-${name}-${this.id}`;
    await operate(this.target, 'POST', '/admin/campaigns', {
      product_id: product,
      name: `Load test: ${name}`,
      ...terms,
    });
    if (this.products.length === 0) await requireLedger(this.target, product);
    this.products.push(product);
    return product;
  }

  /** @param {string} product @returns {Promise<CampaignStats>} */
  stats(product) {
    return operate(this.target, 'GET', `/admin/campaigns/${product}/stats`);
  }

  /** @param {string} product @param {number} delta */
  async addStock(product, delta) {
    await operate(this.target, 'POST', `/admin/campaigns/${product}/stock`, { delta });
  }

  /**
   * Adds a check that must hold besides the ledger.
   * @param {string} what
   * @param {boolean} holds
   * @param {unknown} found
   */
  check = (what, holds, found) => {
    this.checks.push({ what, holds, found });
  };

  /**
   * Expects exactly this number of reservations in the ledger at the end.
   * @param {string} product
   * @param {number} count
   */
  reservations(product, count) {
    this.expected.set(product, count);
  }

  /**
   * Builds the script for Artillery.
   * @template {import('./scenario.js').Plan} Planned
   * @template Products
   * @param {import('./scenario.js').Scenario<Planned, Products>} scenario
   * @param {Planned} plan
   * @param {Products} products
   */
  scriptOf({ script }, plan, products) {
    if (!script) throw new Error('only a scenario of Artillery has a script');
    return script(plan, products);
  }

  /** Runs the load and prints a line a second. @param {() => Promise<void>} load */
  async underLoad(load) {
    this.tally.begin();
    const end = progress(this.tally, this.say, async () => {
      const [product] = this.products;
      if (product === undefined) return;
      const stats = await this.stats(product).catch(() => null);
      const second = Math.round(this.tally.elapsedMs() / 100) / 10;
      if (stats)
        this.stock.push({
          second,
          free: stats.free ?? 0,
          held: stats.held,
          redeemed: stats.redeemed,
          waiting: stats.waiting,
        });
    });
    /** @type {NodeJS.Timeout | undefined} */
    let timer;
    const tooLong = new Promise((resolve) => {
      timer = setTimeout(() => resolve('too long'), this.limitMs);
    });
    try {
      const outcome = await Promise.race([load(), tooLong]);
      if (outcome === 'too long') {
        this.tally.fault(`the load was not over after ${this.limitMs / 1000} s`);
        await stopStragglers(STOP_LIMIT_MS);
      }
    } finally {
      clearTimeout(timer);
      await end();
    }
  }

  /**
   * @param {import('./scenario.js').ArtilleryScript} script
   * @param {Record<string, unknown>} [facts] for the processor
   */
  async artillery(script, facts = {}) {
    const { target, tally } = this;
    const known = {
      run: this.id,
      product: this.products[0],
      target: target.url,
      serviceKey: target.serviceKey,
      ...facts,
    };
    await runArtillery(wholeScript(script, target.url), tally, known, { SERVICE_KEY: target.serviceKey });
  }

  /**
   * Waits until the numbers of a campaign satisfy a condition, and returns the last ones in any case.
   * @param {string} product
   * @param {(stats: CampaignStats) => boolean} isSo
   */
  async settled(product, isSo, limitMs = SETTLE_LIMIT_MS) {
    let stats = await this.stats(product);
    await until(
      async () => {
        stats = await this.stats(product);
        return isSo(stats);
      },
      { limitMs, everyMs: 200 },
    );
    const { total, free, held, redeemed, burned, waiting } = stats;
    return { total, free, held, redeemed, burned, waiting };
  }

  /** Adds a figure to the report. @param {string} name @param {number | string} value */
  fact(name, value) {
    this.facts[name] = value;
  }

  pause = pause;
}

/**
 * @param {import('./scenario.js').Scenario} scenario
 * @param {number} scale
 * @param {LoadRun} run
 */
export async function runScenario(scenario, scale, run) {
  const plan = scenario.plan(scale);
  await scenario.run(run, plan);
  run.say('the load is over; the ledger compares Redis, journal and Postgres');
  const campaigns = run.products.map((product) => ({ product, promises: run.tally.promises.get(product) ?? [] }));
  const verdicts = await takeVerdicts(run.target, campaigns);
  for (const { product, ledger } of verdicts) {
    const count = run.expected.get(product);
    if (count !== undefined)
      run.check(`${count} reservations in the ledger`, ledger.confirmed === count, ledger.confirmed);
  }
  const failures = findFailures({ answers: scenario.answers, tally: run.tally, checks: run.checks, verdicts });
  return {
    plan,
    campaigns,
    verdicts,
    failures,
    ...figures(run.tally),
    stock: run.stock,
    facts: run.facts,
    checks: run.checks,
  };
}

/** @param {Tally} tally */
function figures(tally) {
  const round = (/** @type {number | null} */ ms) => (ms === null ? null : Math.round(ms * 10) / 10);
  return {
    total: tally.total,
    faults: { count: tally.faultCount, told: tally.faults },
    requests: [...tally.kinds].map(([name, { latencies, ...kind }]) => ({
      name,
      ...kind,
      p50_ms: round(quantile(latencies, 0.5)),
      p99_ms: round(quantile(latencies, 0.99)),
      max_ms: round(quantile(latencies, 1)),
    })),
    seconds: tally.seconds.map(({ latencies, ...second }, at) => ({
      second: at,
      ...second,
      p50_ms: round(quantile(latencies, 0.5)),
      p99_ms: round(quantile(latencies, 0.99)),
    })),
  };
}
