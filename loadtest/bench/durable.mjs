// Compares `confirmation: durable` with `fast` on a running server: the same number of checkouts, in turns, so that
// the load of the machine affects both. Starts nothing.
//
//   URL=http://127.0.0.1:8102 ADMIN_KEY=… node loadtest/bench/durable.mjs
//
//   URL          the API
//   ADMIN_KEY    secret of an operator (`npm start` prints it)
//   CHECKOUTS    in each turn of each kind (2000)
//   CONNECTIONS  at once (50)
//   TURNS        of each kind (5)
//
// Prints one JSON object: for each kind checkouts a second, and p50 and p99 of their latency in ms, over all turns.
import { randomUUID } from 'node:crypto';
import { Agent, request } from 'node:http';
import { arch, cpus, platform } from 'node:os';

const { URL: base, ADMIN_KEY: key, CHECKOUTS = '2000', CONNECTIONS = '50', TURNS = '5' } = process.env;
if (!base || !key) {
  process.stderr.write('URL and ADMIN_KEY are needed; the header of this file says what for\n');
  process.exit(2);
}
const agent = new Agent({ keepAlive: true, maxSockets: Number(CONNECTIONS) });

/** @type {Record<'fast' | 'durable', { latencies: number[], seconds: number }>} */
const results = { fast: { latencies: [], seconds: 0 }, durable: { latencies: [], seconds: 0 } };
// The first turn of each warms up and does not count.
for (const kind of /** @type {const} */ (['fast', 'durable'])) await turn(kind, false);
for (let i = 0; i < Number(TURNS); i += 1) {
  await turn('fast', true);
  await turn('durable', true);
}
agent.destroy();
const { length, 0: first } = cpus();
process.stdout.write(
  `${JSON.stringify(
    {
      date: new Date().toISOString().slice(0, 10),
      machine: `${length} × ${first?.model.trim()}, ${platform()} ${arch()}, Node ${process.version}`,
      connections: Number(CONNECTIONS),
      checkouts: Number(CHECKOUTS) * Number(TURNS),
      fast: figures(results.fast),
      durable: figures(results.durable),
    },
    null,
    2,
  )}\n`,
);

/**
 * @param {'fast' | 'durable'} kind
 * @param {boolean} counts
 */
async function turn(kind, counts) {
  const product = `bench-${randomUUID()}`;
  const opened = await post('/admin/campaigns', {
    product_id: product,
    total_limit: 10_000_000,
    hold_seconds: 600,
    confirmation: kind,
    require_attestation: false,
  });
  if (opened.status !== 201) throw new Error(`the campaign was not opened: ${opened.status} ${opened.text}`);
  let left = Number(CHECKOUTS);
  const lane = async () => {
    while (left > 0) {
      left -= 1;
      const began = performance.now();
      const user = randomUUID();
      const answer = await post('/flash-sale/checkout', {
        product_id: product,
        user_id: user,
        qty: 1,
        idempotency_key: user,
      });
      if (answer.status !== 200) throw new Error(`a checkout was not served: ${answer.status} ${answer.text}`);
      if (counts) results[kind].latencies.push(performance.now() - began);
    }
  };
  const began = performance.now();
  await Promise.all(Array.from({ length: Number(CONNECTIONS) }, lane));
  if (counts) results[kind].seconds += (performance.now() - began) / 1000;
  await post(`/admin/campaigns/${product}/close`, {});
}

/** @param {{ latencies: number[], seconds: number }} result */
function figures({ latencies, seconds }) {
  const sorted = latencies.sort((a, b) => a - b);
  const at = (/** @type {number} */ share) => Math.round(Number(sorted[Math.floor(sorted.length * share)]) * 10) / 10;
  return { per_second: Math.round(latencies.length / seconds), p50_ms: at(0.5), p99_ms: at(0.99) };
}

/**
 * @param {string} path
 * @param {object} json
 * @returns {Promise<{ status: number, text: string }>}
 */
function post(path, json) {
  const body = JSON.stringify(json);
  const headers = {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
    ...(path.startsWith('/admin') ? { authorization: `Bearer ${key}` } : {}),
  };
  return new Promise((resolve, reject) => {
    const req = request(`${base}${path}`, { method: 'POST', agent, headers }, (res) => {
      let text = '';
      res.on('data', (chunk) => {
        text += chunk;
      });
      res.on('end', () => resolve({ status: res.statusCode ?? 0, text }));
      res.on('error', reject);
    });
    req.on('error', reject);
    req.end(body);
  });
}
