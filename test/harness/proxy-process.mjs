// The process of the proxies of a test file (proxy.ts): a crowd in the test cannot keep them from their sockets. Takes
// orders over the channel to its parent and confirms each. Ends with the channel, so with its parent in any case.
import { connect, createServer } from 'node:net';

/** @typedef {import('./proxy.js').ProxyOrder} ProxyOrder */

/** @type {Map<number, PacketProxy>} */
const proxies = new Map();

process.on('disconnect', () => process.exit());
process.on('message', (message) => {
  const { number, order } = /** @type {{ number: number, order: ProxyOrder }} */ (message);
  obey(order).then(
    (port) => process.send?.({ number, port }),
    (error) => process.send?.({ number, problem: String(error) }),
  );
});

/** @param {ProxyOrder} order */
async function obey(order) {
  if (order.what === 'open') {
    const proxy = new PacketProxy(order.targetPort, order.delayMs);
    proxies.set(order.proxy, proxy);
    return proxy.listen();
  }
  const proxy = proxies.get(order.proxy);
  if (!proxy) throw new Error(`there is no proxy ${order.proxy}`);
  if (order.what === 'move') proxy.targetPort = order.targetPort;
  if (order.what === 'swallow') proxy.swallowing = true;
  if (order.what === 'forward') proxy.forward();
  if (order.what === 'lose') proxy.losing = order.text;
  if (order.what === 'close') await proxy.close();
  return 0;
}

class PacketProxy {
  /** Nothing passes, in both directions, and new connections get no answer. */
  swallowing = false;
  /** @type {string | null} the next response that contains this is lost */
  losing = null;
  /** @type {Set<import('node:net').Socket>} */
  #sockets = new Set();
  #server = createServer((socket) => this.#join(socket));
  #delayMs;

  /**
   * @param {number} targetPort
   * @param {number} delayMs
   */
  constructor(targetPort, delayMs) {
    this.targetPort = targetPort;
    this.#delayMs = delayMs;
  }

  /** @returns {Promise<number>} the port */
  listen() {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(0, '127.0.0.1', () => {
        resolve(/** @type {import('node:net').AddressInfo} */ (this.#server.address()).port);
      });
    });
  }

  forward() {
    this.swallowing = false;
    for (const socket of this.#sockets) socket.destroy();
  }

  async close() {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  /**
   * @param {Buffer} chunk
   * @param {import('node:net').Socket} to
   */
  #pass(chunk, to) {
    if (!this.swallowing && to.writable) to.write(chunk);
  }

  /** @param {import('node:net').Socket} client */
  #join(client) {
    const engine = connect(this.targetPort, '127.0.0.1');
    this.#relay(client, engine, () => false);
    this.#relay(engine, client, (chunk) => {
      if (this.losing === null || !chunk.includes(this.losing)) return false;
      this.losing = null;
      client.destroy();
      return true;
    });
  }

  /**
   * @param {import('node:net').Socket} from
   * @param {import('node:net').Socket} to
   * @param {(chunk: Buffer) => boolean} isLost
   */
  #relay(from, to, isLost) {
    this.#sockets.add(from);
    from.on('data', (chunk) => {
      if (isLost(chunk)) return;
      if (this.#delayMs === 0) this.#pass(chunk, to);
      else setTimeout(() => this.#pass(chunk, to), this.#delayMs);
    });
    from.on('error', () => from.destroy());
    from.on('close', () => {
      this.#sockets.delete(from);
      if (this.swallowing) return;
      if (this.#delayMs === 0) to.destroy();
      // After what is still held back.
      else setTimeout(() => to.destroy(), this.#delayMs);
    });
  }
}
