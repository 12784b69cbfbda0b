// Free ports, and the question whether one is free.
import { createServer } from 'node:net';
import { codeOf } from './problem.mjs';

/**
 * Why this address cannot be listened on ("EADDRINUSE", …), or undefined when it can.
 * @param {number} port
 * @param {string} [host]
 * @returns {Promise<string | undefined>}
 */
export async function whyNotListen(port, host = '127.0.0.1') {
  const server = createServer();
  return new Promise((resolve) => {
    server.once('error', (error) => resolve(codeOf(error) ?? error.message));
    server.listen({ port, host, exclusive: true }, () => server.close(() => resolve(undefined)));
  });
}

/**
 * A port that is free now. Another program may take it before it is used, so whoever chose one tries again with another.
 * @returns {Promise<number>}
 */
export async function freePort() {
  const server = createServer();
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen({ port: 0, host: '127.0.0.1' }, () => {
      const address = server.address();
      server.close(() => resolve(address !== null && typeof address === 'object' ? address.port : 0));
    });
  });
}
