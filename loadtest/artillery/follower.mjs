// A shopper with the typed client, as a web shop would use it. They click once, follow the line over a socket, and pay
// or release the unit when they are promoted.
import { setTimeout as pause } from 'node:timers/promises';
import { WebSocket } from '../sockets.mjs';
import { outcomeOf } from '../tally.mjs';

/** @type {Promise<typeof import('../../client/sale.js')>} */
const client = import(new URL('../../dist/client/sale.js', import.meta.url).href);

/** @typedef {Pick<import('../tally.mjs').Tally, 'sent' | 'answered' | 'broken' | 'promised' | 'fault'>} Teller */

/**
 * @param {{ user: string, product: string, target: string, serviceKey: string, tell: Teller, pays: boolean, thinkMs:
 *   number, patienceMs: number }} shopper
 * @returns {Promise<void>} when the shopper is done
 */
export async function follow({ user, product, target, serviceKey, tell, pays, thinkMs, patienceMs }) {
  const { MemoryStore, Sale } = await client;
  const sale = new Sale({
    productId: product,
    userId: user,
    deviceId: `d-${user}`,
    baseUrl: target,
    store: new MemoryStore(),
    fetch: counted(tell),
    WebSocket: countedSockets(tell),
  });
  /** @type {(standing: string) => void} */
  let end = () => {};
  const ended = new Promise((resolve) => {
    end = resolve;
  });
  const answerTurn = async (/** @type {{ reservation_id: string | null }} */ { reservation_id }) => {
    tell.promised(product, user, String(reservation_id));
    await pause(thinkMs);
    if (!pays) return sale.release('changed their mind');
    await counted(tell)(`${target}/flash-sale/confirm`, {
      method: 'POST',
      headers: { authorization: `Bearer ${serviceKey}`, 'content-type': 'application/json' },
      body: JSON.stringify({ reservation_id }),
    });
  };
  const onTurn = (/** @type {import('../../client/sale.js').Standing} */ standing) => {
    answerTurn(standing).catch((error) => tell.fault(`${user} could not use the promotion: ${error.message}`));
  };
  sale.on('completed', onTurn);
  sale.on('promoted', onTurn);
  for (const last of /** @type {const} */ (['redeemed', 'released', 'expired', 'left', 'closed'])) {
    sale.on(last, () => end(last));
  }
  sale.on('lost', (code) => end(`lost: ${code}`));
  const timer = setTimeout(() => end('nothing'), patienceMs);
  try {
    await sale.attempt();
    const last = await ended;
    if (!['redeemed', 'released', 'closed'].includes(String(last))) {
      tell.fault(`${user} ended with "${last}" and the status ${JSON.stringify(sale.standing)}`);
    }
  } catch (error) {
    // A shopper who arrives after the end gets a refusal, which is counted with the other responses.
    const code = /** @type {{ code?: string }} */ (error).code;
    if (code !== 'sold_out') tell.fault(`${user}: ${code ?? error}`);
  } finally {
    clearTimeout(timer);
    sale.stop();
  }
}

/** The `fetch` of the client, which counts its calls. @param {Teller} tell @returns {typeof fetch} */
function counted(tell) {
  return async (input, init) => {
    const name = nameOf(String(input));
    tell.sent(name);
    const began = performance.now();
    try {
      const answer = await fetch(input, init);
      const body = await answer
        .clone()
        .json()
        .catch(() => null);
      tell.answered(name, outcomeOf(answer.status, body), performance.now() - began);
      return answer;
    } catch (error) {
      tell.broken(name, String(error));
      throw error;
    }
  };
}

/** The sockets of the client. Each counts as one request, and its `welcome` as the response. @param {Teller} tell */
function countedSockets(tell) {
  return class extends WebSocket {
    /** @param {string} url */
    constructor(url) {
      super(url);
      tell.sent('socket');
      const began = performance.now();
      this.once('message', (data) => {
        const { type } = JSON.parse(String(data));
        tell.answered('socket', `101 ${type}`, performance.now() - began);
      });
      this.on('error', (error) => tell.broken('socket', error.message));
    }
  };
}

/** @param {string} url */
function nameOf(url) {
  const last = new URL(url).pathname.split('/').at(-1);
  return last === 'queue' ? 'leave' : String(last);
}
