// Polls. How much CPU does a poll of queue-status cost the API and Redis?
//
// Method: 2,000 people wait for one unit that is held. They poll over 64 keep-alive connections, each with the ticket
// of their place, in rounds. CPU of both processes over the polls, medians of the rounds. The generator does not sleep,
// because the kernel would charge the server for waking it.
// Last record (2026-11-23, 500719d, load 1.7): api_us 50.5, redis_us 16.7
import { requestBytes } from '../http-client.mjs';
import { checkoutRequest, drive, operator } from './load.mjs';
import { cpuOf, cpuSince, median, round } from './measure.mjs';

const WAITING = 2_000;
const ROUNDS = 7;
const POLLS = 4_000;

export const extraEnv = { POLLS_PER_10_SECONDS: '100000' };

/** @param {import('./environment.mjs').Environment} environment @param {(text: string) => void} say */
export async function run(environment, say) {
  const product = `polls-${Date.now()}`;
  await operator(environment.api.url, 'POST', '/admin/campaigns', {
    product_id: product,
    total_limit: 1,
    hold_seconds: 86_400,
    waiting_room: { enabled: true, max_size: 10_000 },
  });
  const users = Array.from({ length: WAITING + 1 }, (_, i) => `u${i}`);
  const { bodies } = await drive(
    environment.api.url,
    users.map((user) => checkoutRequest(product, user, `key-${product}-${user}`)),
    { connections: 1, keepBodies: true },
  );
  const polls = bodies.slice(1).map((body, i) => {
    const path = `/flash-sale/queue-status?product_id=${product}&user_id=${users[i + 1]}`;
    return requestBytes('GET', path, [`X-Ticket: ${JSON.parse(body).data.ticket}`]);
  });
  /** @type {[number[], number[]]} */
  const [api, redis] = [[], []];
  for (let i = -1; i < ROUNDS; i += 1) {
    const before = cpuOf(environment);
    const requests = Array.from({ length: POLLS }, (_, n) => polls[n % polls.length] ?? Buffer.alloc(0));
    const { replies } = await drive(environment.api.url, requests, { awake: true });
    if (replies.get(200) !== POLLS) throw new Error(`not all were served: ${JSON.stringify([...replies])}`);
    const cpu = cpuSince(environment, before, POLLS);
    // The first round warms up.
    if (i < 0) continue;
    api.push(cpu.api);
    redis.push(cpu.redis);
    say(`round ${i + 1}: API ${round(cpu.api)} µs, Redis ${round(cpu.redis)} µs`);
  }
  return { api_us: round(median(api)), redis_us: round(median(redis)) };
}
