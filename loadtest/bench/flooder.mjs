// The flood of floods.mjs, in a process of its own: many connections from one address, with several requests on their
// way on each. The first message names the flood, the answer says that it runs, and `stop` ends it. It sends the number
// of responses by status. Loopback only.
import { connect } from 'node:net';
import { requestBytes } from '../http-client.mjs';

/** Another address than that of the shoppers. */
const ADDRESS = '127.0.0.2';
/** A connection that was closed is opened again after this time, ms. */
const AGAIN_MS = 200;

/**
 * @typedef {{
 *   url: string, method: string, path: string, json?: unknown, connections: number, pipelined: number
 * }} Flood
 */

/** @type {Record<string, number>} */
const statuses = {};
let stopped = false;

process.on('message', (/** @type {Flood | 'stop'} */ message) => {
  if (typeof message === 'object') {
    flood(message);
    return;
  }
  stopped = true;
  process.send?.(statuses, () => process.exit(0));
});

/** @param {Flood} flood */
function flood({ url, method, path, json, connections, pipelined }) {
  const { hostname, port } = new URL(url);
  const request = requestBytes(method, path, [], json);
  const first = Buffer.concat(Array.from({ length: pipelined }, () => request));
  const open = () => {
    if (stopped) return;
    const socket = connect({ host: hostname, port: Number(port), localAddress: ADDRESS });
    socket.on('connect', () => socket.write(first));
    socket.on('data', (chunk) => {
      const answered = count(chunk);
      if (answered > 0) socket.write(answered === 1 ? request : Buffer.concat(Array(answered).fill(request)));
    });
    socket.on('error', () => {});
    socket.on('close', () => setTimeout(open, AGAIN_MS));
  };
  for (let i = 0; i < connections; i += 1) open();
}

/** Status lines in a part of a response, counted by status. @param {Buffer} chunk */
function count(chunk) {
  const text = chunk.toString('latin1');
  let answered = 0;
  for (let at = text.indexOf('HTTP/1.1 '); at >= 0; at = text.indexOf('HTTP/1.1 ', at + 9)) {
    const status = text.slice(at + 9, at + 12);
    statuses[status] = (statuses[status] ?? 0) + 1;
    answered += 1;
  }
  return answered;
}
