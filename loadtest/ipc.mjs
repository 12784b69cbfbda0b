// Sends what Artillery's virtual users experience to this process, line by line. So the tally is the same for both
// generators and is complete every second: Artillery itself reports every ten seconds, and has no promises.
import { once } from 'node:events';
import { connect, createServer } from 'node:net';

const SEND_EVERY_MS = 50;

/** @typedef {import('./tally.mjs').Tally} Tally */
/** The messages: each is a method of the tally. */
const WORDS = /** @type {const} */ (['sent', 'answered', 'broken', 'promised', 'fault', 'departed']);
/** @typedef {(typeof WORDS)[number]} Word */

/**
 * @param {Tally} tally
 * @returns {Promise<{ port: number, close: () => Promise<void> }>}
 */
export async function listen(tally) {
  const sockets = new Set();
  const server = createServer((socket) => {
    sockets.add(socket);
    let rest = '';
    socket.setEncoding('utf8');
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
    socket.on('data', (chunk) => {
      const lines = (rest + chunk).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) {
        const [word, ...args] = JSON.parse(line);
        if (!WORDS.includes(word)) throw new Error(`unknown message: ${word}`);
        Reflect.apply(tally[/** @type {Word} */ (word)], tally, args);
      }
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port for the messages of Artillery');
  return {
    port: address.port,
    close: async () => {
      server.close();
      // Waits until the last messages have been read.
      await Promise.all([...sockets].map((socket) => (socket.destroyed ? undefined : once(socket, 'close'))));
    },
  };
}

/**
 * The other end, in Artillery's worker: a tally that sends instead of counting.
 * @param {number} port
 * @returns {Pick<Tally, Word>}
 */
export function remoteTally(port) {
  /** @type {string[]} */
  let lines = [];
  const socket = connect(port, '127.0.0.1');
  // Artillery ends its worker as soon as the last user is done, so the rest is written at its exit.
  socket.setNoDelay(true);
  socket.unref();
  const flush = () => {
    if (lines.length === 0) return;
    socket.write(`${lines.join('\n')}\n`);
    lines = [];
  };
  setInterval(flush, SEND_EVERY_MS).unref();
  process.on('exit', flush);
  const send =
    (/** @type {string} */ word) =>
    (/** @type {unknown[]} */ ...args) => {
      lines.push(JSON.stringify([word, ...args]));
    };
  return /** @type {Pick<Tally, Word>} */ (Object.fromEntries(WORDS.map((word) => [word, send(word)])));
}
