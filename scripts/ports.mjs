// Finds free ports, and checks whether a port is free.
import { createServer } from 'node:net';
import { codeOf } from './problem.mjs';

/**
 * Returns why this address cannot be listened on ("EADDRINUSE", …), or undefined if it can.
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
 * Returns a port that is free now. Another program may take it before it is used; then the caller tries another one.
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
