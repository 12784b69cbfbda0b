// Bots. How many units do bots get, and how much do they slow down ordinary shoppers?
//
// Method: a campaign with `risk: enforce` demands a proof of work from every user. Ordinary shoppers, each with their
// own address and device, request a token, get it for a solution and check out, one after the other at a steady pace. A
// hundred do so in peace and a hundred while bots attack (attackers.mjs), in turns, so that the load of the machine
// affects both. Challenges are solved before, because shoppers solve them on their own devices. The benchmark measures
// how long the API takes for each call. Bots send one device from a thousand addresses, a thousand devices from one
// address, replayed, transplanted and stale tokens, guessed codes, forged addresses, floods of frames, and a hundred
// replays of one solution at once. Goals: bots get less than 1 % of the units, and no shopper is refused. The p99 of
// shoppers is at most three times that of peace. A request of a banned caller costs less than a quarter of a checkout.
// The ledger finds no difference.
// Last record (2026-11-23, 500719d, load 1.3): units_of_bots 1, share_of_bots 0.001, successes_of_replays "1 of 100", shoppers_refused "0 of 200", p99_ms {"peace":8,"attacked":14.1,"ratio":1.76}, p50_ms {"peace":2.7,"attacked":2.6}, blocked_over_checkout {"banned_network":0.294,"banned_device":0.366,"banned_user":0.41,"device_over_quota":0.862,"network_over_quota":0.276}, ledger "clean", met false
import { fork, spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { extraEnv as blockedEnv, measureBlocked } from './blocked.mjs';
import { ATTESTATION_KEY, ROOT } from './environment.mjs';
import { operator } from './load.mjs';
import { quantile, round } from './measure.mjs';

/** @type {typeof import('../../client/proof-of-work.js')} */
const { solveWork } = await import(join(ROOT, 'dist/client/proof-of-work.js'));

const ROUNDS = 4;
const SHOPPERS_A_ROUND = 25;
const EVERY_MS = 60;
const UNITS = 1_000;
const REPLAYS = 100;
const BLOCKED_ROUNDS = 4;

export const extraEnv = blockedEnv;
/** @param {number[]} all */
const p99 = (all) => quantile(all, 0.99);

/**
 * @param {import('./environment.mjs').Environment} environment
 * @param {(text: string) => void} say
 * @param {string} [root]
 */
export async function run(environment, say, root = ROOT) {
  const { url } = environment.api;
  const product = `bots-${Date.now()}`;
  await operator(url, 'POST', '/admin/campaigns', {
    product_id: product,
    total_limit: UNITS,
    hold_seconds: 900,
    risk: 'enforce',
    limits: { attestation_level: 1, unusual_hours: null },
  });
  const bare = await environment.start('an API without a proxy', [join(root, 'dist/api/main.js')], {
    TRUST_PROXY: '0',
  });
  await operator(url, 'POST', '/admin/bans', { kind: 'network', subject: '127.0.0.1', reason: 'the bench' });
  const market = new Market(url, product);
  try {
    await market.shop('warm', 10);
    const bot = await market.workedToken('bot-worker', '10.9.0.1');
    const ticket = String((await market.checkout('bot-worker', bot, '10.9.0.1')).data?.ticket);
    const attackers = fork(fileURLToPath(new URL('attackers.mjs', import.meta.url)));
    attackers.send({ url, bareUrl: bare.url, product, worked: bot, ticket, key: ATTESTATION_KEY.toString('base64') });
    const [peace, attacked] = [new Shift(), new Shift()];
    let replayed = 0;
    for (let i = 0; i < ROUNDS; i += 1) {
      attackers.send('pause');
      await market.shop(`peace-${i}`, SHOPPERS_A_ROUND, peace);
      await market.shop(`attacked-${i}`, SHOPPERS_A_ROUND, attacked, async () => {
        attackers.send('go');
        await sleep(500);
        if (i === 0) replayed = await market.replay(REPLAYS);
      });
      say(
        `round ${i + 1}: p99 in peace ${round(p99(peace.latencies))} ms, under attack ${round(p99(attacked.latencies))} ms`,
      );
    }
    attackers.send('stop');
    const [met] = await once(attackers, 'message');
    for (const [name, statuses] of Object.entries(met)) say(`${name}: ${JSON.stringify(statuses)}`);

    const { redeemed, held } = await operator(url, 'GET', `/admin/campaigns/${product}/stats`);
    const ofBots = redeemed + held - market.bought;
    const refused = peace.refused + attacked.refused;
    const blocked = await measureBlocked(environment, () => {}, BLOCKED_ROUNDS);
    const ledger = spawnSync(process.execPath, [join(root, 'dist/commands/ledger.js'), product], {
      env: environment.env,
    });
    const slower = p99(attacked.latencies) / p99(peace.latencies);
    return {
      units_of_bots: ofBots,
      share_of_bots: round(ofBots / UNITS, 4),
      successes_of_replays: `${replayed} of ${REPLAYS}`,
      shoppers_refused: `${refused} of ${2 * ROUNDS * SHOPPERS_A_ROUND}`,
      p99_ms: { peace: round(p99(peace.latencies)), attacked: round(p99(attacked.latencies)), ratio: round(slower, 2) },
      p50_ms: { peace: round(quantile(peace.latencies, 0.5)), attacked: round(quantile(attacked.latencies, 0.5)) },
      blocked_over_checkout: blocked.ratios,
      ledger: ledger.status === 0 ? 'clean' : String(ledger.stdout),
      goal: 'bots < 1 %, 1 replay, 0 refused, p99 ≤ 3 ×, banned < 0.25, a clean ledger',
      met:
        ofBots / UNITS < 0.01 && replayed === 1 && refused === 0 && slower <= 3 && blocked.met && ledger.status === 0,
    };
  } finally {
    await bare.stop();
  }
}

/** Results of shoppers under the same conditions. */
class Shift {
  refused = 0;
  /** @type {number[]} */
  latencies = [];
}

/** Shoppers of one campaign, and their results. */
class Market {
  /** @param {string} url @param {string} product */
  constructor(url, product) {
    this.url = url;
    this.product = product;
    this.bought = 0;
    this.people = 0;
  }

  /**
   * @param {string} name
   * @param {number} count
   * @param {Shift} [shift]
   * @param {() => Promise<void>} [begin] when all is solved
   */
  async shop(name, count, shift = new Shift(), begin = async () => {}) {
    const people = [];
    for (let i = 0; i < count; i += 1) {
      const [user, from] = [`${name}-${i}`, `172.16.${this.people >> 8}.${this.people++ & 255}`];
      people.push({ user, from, solution: await this.#solution(user, from) });
    }
    await begin();
    await Promise.all(
      people.map(async ({ user, from, solution }, i) => {
        await sleep(i * EVERY_MS);
        // At the pace of the client.
        await this.#call(this.#tokenPath(user), from, {}, shift.latencies);
        const token = await this.#token(user, from, solution, shift.latencies);
        const { status } = await this.checkout(user, token, from, shift.latencies);
        if (status === 200) this.bought += 1;
        else shift.refused += 1;
      }),
    );
  }

  /** @param {string} user @param {string} from */
  async workedToken(user, from) {
    return this.#token(user, from, await this.#solution(user, from), []);
  }

  /** @param {string} user */
  #tokenPath(user) {
    return `/flash-sale/token?device_fp=fp-${user}&product_id=${this.product}`;
  }

  /** @param {string} user @param {string} from */
  async #solution(user, from) {
    const { challenge } = await this.#call(this.#tokenPath(user), from, {}, []);
    const solved = await solveWork(challenge);
    if (solved === null) throw new Error('the challenge is none of work');
    return solved.challenge_solution;
  }

  /** @param {string} user @param {string} from @param {string} solution @param {number[]} latencies */
  async #token(user, from, solution, latencies) {
    const headers = { 'x-challenge-solution': solution };
    return (await this.#call(this.#tokenPath(user), from, { headers }, latencies)).data;
  }

  /** @param {string} user @param {Record<string, unknown>} token @param {string} from @param {number[]} [latencies] */
  checkout(user, token, from, latencies = []) {
    const json = { product_id: this.product, user_id: user, qty: 1, idempotency_key: randomUUID(), ...token };
    const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(json) };
    return this.#call('/flash-sale/checkout', from, init, latencies);
  }

  /**
   * Presents one solution `times` times at once.
   * @param {number} times
   * @returns {Promise<number>} how often it was taken
   */
  async replay(times) {
    const headers = { 'x-challenge-solution': await this.#solution('replay', '10.9.0.2') };
    const path = this.#tokenPath('replay');
    // From as many networks, so that no limit of a network affects the result.
    const answers = await Promise.all(
      Array.from({ length: times }, (_, i) => this.#call(path, `10.8.0.${i}`, { headers }, [])),
    );
    return answers.filter(({ status }) => status === 200).length;
  }

  /** @param {string} path @param {string} from @param {RequestInit} init @param {number[]} latencies */
  async #call(path, from, init, latencies) {
    const began = performance.now();
    const answer = await fetch(this.url + path, { ...init, headers: { ...init.headers, 'x-forwarded-for': from } });
    const body = JSON.parse(await answer.text());
    latencies.push(performance.now() - began);
    return { ...body, status: answer.status };
  }
}
