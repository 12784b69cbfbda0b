// The process of the proxies of a test file (proxy.ts): a crowd in the test cannot keep them from their sockets. Takes
// orders over the channel to its parent and confirms each. Ends with the channel, so with its parent in any case.
import { join } from 'node:path';

/** @typedef {import('./proxy.js').ProxyOrder} ProxyOrder */
/** @typedef {import('../../torture/cluster/link.js').Link} Link */

/** @type {typeof import('../../torture/cluster/link.js')} */
const { Link: LinkOfTorture } = await import(join(import.meta.dirname, '../../dist/torture/cluster/link.js'));
/** @type {Map<number, Link>} */
const links = new Map();

process.on('disconnect', () => process.exit());
process.on('message', (message) => {
  const { number, order } = /** @type {{ number: number, order: ProxyOrder }} */ (message);
  obey(order).then(
    (port) => process.send?.({ number, port }),
    (error) => process.send?.({ number, problem: String(error) }),
  );
});

/** @param {ProxyOrder} order @returns {Promise<number>} the port of a new proxy, else 0 */
async function obey(order) {
  if (order.what === 'open') {
    const link = await LinkOfTorture.open(order.targetPort, order.delayMs);
    links.set(order.proxy, link);
    return link.port;
  }
  const link = links.get(order.proxy);
  if (!link) throw new Error(`there is no proxy ${order.proxy}`);
  if (order.what === 'switch') link.switchTo(order.targetPort, { keep: order.keep });
  if (order.what === 'lose') link.loseResponseWith(order.text);
  if (order.what === 'swallow' || order.what === 'heal' || order.what === 'cut') link[order.what]();
  if (order.what === 'close') await link.close();
  return 0;
}
