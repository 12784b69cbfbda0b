// The thundering reconnect. When a network drops all sockets, does every user get their position again, or the
// promotion they missed?
//
// People: 5,000 wait in a line with open sockets. All sockets are closed at the same moment. While no user is
// connected, 500 units are added and go to the first 500 of the line. Then all 5,000 connect again as fast as their
// handshakes allow, and the 500 pay. What must hold: each `welcome` has the exact current status. The first 500 of the
// line are promoted, with a reservation each, and all others have their new position. No user is refused, and requests
// of other users get responses meanwhile.
//
// Driven by a generator of its own: Artillery's WebSocket engine has one connection for each user, cannot reconnect,
// and its users do not act at one moment.

import { startProbe } from '../background-probe.mjs';
import { ask, connectClients, forEach, HttpClient } from '../http-client.mjs';
import { WebSocket } from '../sockets.mjs';

const WELCOME_LIMIT_MS = 60_000;

/** @type {import('../scenario.js').Scenario<{ people: number, units: number }>} */
export const scenario = {
  question:
    'When all sockets are closed and reconnect at once, does every user get their position, or the promotion they missed?',
  driver: 'a generator of its own',
  answers: {
    token: ['200'],
    checkout: ['202 queued'],
    socket: ['101 queued'],
    reconnect: ['101 queued', '101 promoted'],
    confirm: ['200 redeemed'],
    probe: ['200 not_queued'],
  },
  plan: (scale) => ({ people: Math.ceil(5_000 * scale), units: Math.ceil(500 * scale) }),
  async run(run, { people, units }) {
    const { tally } = run;
    const product = await run.openCampaign('reconnect', {
      total_limit: 0,
      hold_seconds: 900,
      waiting_room: { enabled: true },
    });
    run.say(`${people.toLocaleString('en')} people stand in line`);
    const waiting = await standInLine(run, product, people);
    const ws = `${run.target.url.replace('http', 'ws')}/flash-sale/ws`;
    const open =
      (/** @type {string} */ name) =>
      async (/** @type {{ ticket: string }} */ { ticket }) =>
        welcomeOf(tally, name, `${ws}?ticket=${ticket}`);

    await run.underLoad(async () => {
      /** @type {(Welcome | null)[]} */
      const first = [];
      await forEach(waiting, 200, async (one, at) => {
        first[at] = await open('socket')(one);
      });
      run.say('all sockets are closed; units are added while no user is connected');
      for (const welcome of first) welcome?.socket.terminate();
      await run.addStock(product, units);
      await run.settled(product, ({ held }) => held === units);

      run.say('all users reconnect');
      const question = `/flash-sale/queue-status?product_id=${product}&user_id=probe`;
      const stopProbe = await startProbe(tally, run.target.url, question);
      const back = await Promise.all(waiting.map(open('reconnect')));
      await stopProbe();
      checkPlaces(run, back, units, waiting);

      const winners = back.slice(0, units);
      const client = new HttpClient(run.target.url);
      await client.connect();
      for (const [at, welcome] of winners.entries()) {
        const reservation = welcome?.frame.reservation_id;
        tally.promised(product, waiting[at]?.user ?? '', String(reservation));
        const key = [`Authorization: Bearer ${run.target.serviceKey}`];
        await ask(
          tally,
          'confirm',
          client,
          client.prepare('POST', '/flash-sale/confirm', { reservation_id: reservation }, key),
        );
      }
      client.close();
      for (const welcome of back) welcome?.socket.terminate();
    });
    const stats = await run.settled(
      product,
      ({ redeemed, journal_backlog }) => redeemed === units && journal_backlog === 0,
    );
    run.check('all units are paid', stats.redeemed === units, stats.redeemed);
    run.check('all others still wait', stats.waiting === people - units, stats.waiting);
  },
};

/** @typedef {{ socket: import('ws').WebSocket, frame: Record<string, any> }} Welcome */

/**
 * @param {import('../run.mjs').LoadRun} run
 * @param {string} product
 * @param {number} people
 * @returns {Promise<{ user: string, ticket: string }[]>} in the order of the line
 */
async function standInLine(run, product, people) {
  const clients = await connectClients(run, people);
  /** @type {{ user: string, ticket: string, position: number }[]} */
  const line = [];
  await forEach(clients, 64, async ({ client, user, device }) => {
    const json = { product_id: product, user_id: user, qty: 1, ...device };
    const request = client.prepare('POST', '/flash-sale/checkout', json, [`Idempotency-Key: key-of-${user}`]);
    const answer = await ask(run.tally, 'checkout', client, request);
    if (answer) line.push({ user, ...answer.body.data });
    client.close();
  });
  return line.sort((a, b) => a.position - b.position);
}

/**
 * Opens a socket and waits for its welcome.
 * @param {import('../tally.mjs').Tally} tally
 * @param {string} name
 * @param {string} url
 * @returns {Promise<Welcome | null>} null = no `welcome` arrived
 */
function welcomeOf(tally, name, url) {
  tally.sent(name);
  const began = performance.now();
  return new Promise((resolve) => {
    const socket = new WebSocket(url, { handshakeTimeout: WELCOME_LIMIT_MS });
    const timer = setTimeout(() => socket.terminate(), WELCOME_LIMIT_MS);
    let welcomed = false;
    const broken = (/** @type {string} */ why) => {
      clearTimeout(timer);
      if (!welcomed) tally.broken(name, why);
      resolve(null);
    };
    socket.on('error', (error) => broken(error.message));
    socket.on('close', (code) => broken(`closed with ${code}`));
    socket.once('message', (data) => {
      clearTimeout(timer);
      welcomed = true;
      const frame = JSON.parse(String(data));
      tally.answered(name, `101 ${frame.type === 'welcome' ? frame.status : frame.type}`, performance.now() - began);
      resolve({ socket, frame });
    });
  });
}

/**
 * Checks that the first of the line have a reservation each, and all others their new positions.
 * @param {import('../run.mjs').LoadRun} run
 * @param {readonly (Welcome | null)[]} back in the order of the line
 * @param {number} units
 * @param {readonly { user: string }[]} waiting
 */
function checkPlaces({ tally, check }, back, units, waiting) {
  const reservations = new Set();
  for (const [at, welcome] of back.entries()) {
    const { status, position, reservation_id } = welcome?.frame ?? {};
    const right =
      at < units ? status === 'promoted' && reservation_id : status === 'queued' && position === at + 1 - units;
    if (!right)
      tally.fault(
        `${waiting[at]?.user}, number ${at + 1} in line, was welcomed with ${JSON.stringify(welcome?.frame ?? null)}`,
      );
    if (reservation_id) reservations.add(reservation_id);
  }
  check('each of the first in line has a different reservation', reservations.size === units, reservations.size);
}
