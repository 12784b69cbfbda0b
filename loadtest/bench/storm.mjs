// Storm. How long does it take until all sockets have reconnected?
//
// Method: 10,000 people wait, each with an idle socket. All are closed and connect again as fast as they can, 500 at a
// time, as after a process was killed. Measured: the time until the last one has its `welcome`, how many had none, the
// longest wait of another user's request meanwhile, and the CPU of the API for each. There is no goal, but every socket
// must get its `welcome`.
// Last record (2026-11-23, 500719d, load 1.2): welcomed_again 10000, not_welcomed 0, all_back_after_ms 2466, api_cpu_us_per_socket 204.8, api_bytes_per_socket 10582, others_p99_ms 304, others_max_ms 304, met true
import { WebSocket } from '../sockets.mjs';
import { checkoutRequest, drive, operator } from './load.mjs';
import { cpuMicros, quantile, residentBytes, round } from './measure.mjs';

const PEOPLE = 10_000;
const AT_ONCE = 500;

/** @param {import('./environment.mjs').Environment} environment @param {(text: string) => void} say */
export async function run(environment, say) {
  const product = `storm-${Date.now()}`;
  await operator(environment.api.url, 'POST', '/admin/campaigns', {
    product_id: product,
    total_limit: 0,
    hold_seconds: 900,
    waiting_room: { enabled: true },
  });
  const requests = Array.from({ length: PEOPLE }, (_, i) => checkoutRequest(product, `u${i}`, `key-${product}-${i}`));
  const { bodies } = await drive(environment.api.url, requests, { keepBodies: true });
  const tickets = bodies.map((body) => JSON.parse(body).data.ticket);
  const connectAll = async () => {
    /** @type {WebSocket[]} */
    const sockets = [];
    let failed = 0;
    let next = 0;
    const lane = async () => {
      for (let ticket = tickets[next++]; ticket !== undefined; ticket = tickets[next++]) {
        const socket = new WebSocket(`${environment.api.url.replace('http', 'ws')}/flash-sale/ws?ticket=${ticket}`);
        const welcomed = await new Promise((resolve) => {
          socket.once('message', () => resolve(true));
          socket.once('error', () => resolve(false));
          socket.once('close', () => resolve(false));
        });
        if (welcomed) sockets.push(socket);
        else failed += 1;
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, lane));
    return { sockets, failed };
  };
  const rssBefore = residentBytes(environment.api.pid);
  const first = await connectAll();
  await new Promise((resolve) => setTimeout(resolve, 2_000));
  const rss = residentBytes(environment.api.pid) - rssBefore;
  say(`${first.sockets.length} sockets are open`);
  for (const socket of first.sockets) socket.terminate();

  /** @type {number[]} */
  const waits = [];
  let asking = true;
  const probe = (async () => {
    while (asking) {
      const began = performance.now();
      await fetch(`${environment.api.url}/livez`);
      waits.push(performance.now() - began);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  })();
  const cpuBefore = cpuMicros(environment.api.pid);
  const began = performance.now();
  const second = await connectAll();
  const ms = performance.now() - began;
  asking = false;
  await probe;
  const cpu = cpuMicros(environment.api.pid) - cpuBefore;
  for (const socket of second.sockets) socket.terminate();
  return {
    welcomed_again: second.sockets.length,
    not_welcomed: first.failed + second.failed,
    all_back_after_ms: Math.round(ms),
    api_cpu_us_per_socket: round(cpu / PEOPLE),
    api_bytes_per_socket: Math.round(rss / PEOPLE),
    others_p99_ms: round(quantile(waits, 0.99)),
    others_max_ms: round(quantile(waits, 1)),
    met: first.failed + second.failed === 0,
  };
}
