import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Worker } from 'node:worker_threads';
import { expect, test } from '@jest/globals';
import { atEnd } from '../../test/harness/cleanup.js';
import { closeServer } from './close-server.js';

/** Connects when `shared[0]` is 1, sets it to 2, and reports how its request ended. */
const CLIENT = `
  const { workerData: { port, shared }, parentPort } = require('node:worker_threads');
  Atomics.wait(shared, 0, 0);
  const socket = require('node:net').connect(port, '127.0.0.1', () => {
    socket.write('GET / HTTP/1.1\\r\\nHost: test\\r\\nConnection: close\\r\\n\\r\\n');
    Atomics.store(shared, 0, 2);
    Atomics.notify(shared, 0);
  });
  let response = '';
  socket.on('data', (data) => { response += data; });
  socket.on('error', (error) => parentPort.postMessage(error.code));
  socket.on('end', () => parentPort.postMessage(response.split('\\r\\n')[0]));
`;

test('a connection that arrives while the process is busy is served before the port closes', async () => {
  const server = createServer((_req, res) => res.end('served'));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const shared = new Int32Array(new SharedArrayBuffer(4));
  const { port } = server.address() as AddressInfo;
  const client = new Worker(CLIENT, { eval: true, workerData: { port, shared } });
  atEnd('the client', async () => {
    await client.terminate();
  });
  await once(client, 'online');
  const ended = once(client, 'message');
  const closed = closeServer(server);
  Atomics.store(shared, 0, 1);
  Atomics.notify(shared, 0);
  Atomics.wait(shared, 0, 1);
  // Busy for longer than the time without connections after which the port closes.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 100);
  expect(await ended).toEqual(['HTTP/1.1 200 OK']);
  await closed;
});
