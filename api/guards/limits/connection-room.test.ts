import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { expect, test } from '@jest/globals';
import { atEnd } from '../../../test/harness/cleanup.js';
import { until } from '../../../test/harness/until.js';
import { idleSince, Pipelines } from '../../http/pipeline.js';
import { ConnectionRoom, connectionsWithin } from './connection-room.js';

/** A server with room for four connections. A request of `/slow` is in service until `finish` is called. */
async function startServer(batch = 1) {
  const slow: (() => void)[] = [];
  const full: [number, string][] = [];
  const server = createServer((req, res) => {
    res.on('finish', () => pipelines.finished(req.socket));
    pipelines.take(req, () => {
      if (req.url === '/slow') slow.push(() => res.end('slow'));
      else res.end('fast');
    });
  });
  const pipelines = new Pipelines(server, {
    ...{ inFlight: 8, waiting: 100, isBusy: () => false },
    ...{ networkOf: () => null, waitingOf: () => 0, read: () => 1 },
  });
  new ConnectionRoom(server, {
    ...{ capacity: 4, batch, keepAlive: { ms: 65_000, fullMs: 5_000 }, idleSince },
    networkOf: ({ remoteAddress }) => String(remoteAddress).replace('::ffff:', ''),
    onFull: (closed, network) => full.push([closed, network]),
  });
  server.listen(0);
  await once(server, 'listening');
  atEnd('the server', () => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const dial = (localAddress: string): Socket => {
    const socket = connect({ port, host: '127.0.0.1', localAddress }).on('error', () => {});
    atEnd('a connection', () => void socket.destroy());
    return socket;
  };
  const ask = (socket: Socket, path = '/') => socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`);
  /** Opens a connection that has had a response, and is idle since. */
  const idle = async (address: string) => {
    const socket = dial(address);
    ask(socket);
    await once(socket, 'data');
    return socket;
  };
  const busy = async (address: string) => {
    const [socket, before] = [dial(address), slow.length];
    ask(socket, '/slow');
    await until('the request is in service', () => slow.length > before);
    return socket;
  };
  return { server, dial, ask, idle, busy, full, slow };
}
const isServed = async (socket: Socket, ask: (socket: Socket) => void) => {
  ask(socket);
  return (await Promise.race([once(socket, 'data'), once(socket, 'close')])).length > 0 && !socket.destroyed;
};

test('makes room by closing what was idle for longest, of the network that has most', async () => {
  const { server, dial, ask, idle, busy, full } = await startServer();
  const first = await busy('127.0.0.66');
  const [second, third] = [await idle('127.0.0.66'), await idle('127.0.0.66')];
  const other = await idle('127.0.0.2');
  expect(server.keepAliveTimeout).toBe(5_000);
  const closed = once(second, 'close');
  const shopper = dial('127.0.0.3');
  expect(await isServed(shopper, ask)).toBe(true);
  await closed;
  expect([first, third, other].map(({ destroyed }) => destroyed)).toEqual([false, false, false]);
  expect(full).toEqual([[1, '127.0.0.66']]);
  for (const socket of [third, other]) socket.destroy();
  await until('there is room', () => server.keepAliveTimeout === 65_000);
});

test('closes the oldest of the network that has most if none of it is idle, but not for one of its own', async () => {
  const { dial, ask, busy, full, slow } = await startServer();
  const held: Socket[] = [];
  for (let i = 0; i < 4; i += 1) held.push(await busy('127.0.0.66'));
  const own = dial('127.0.0.66');
  await once(own, 'close');
  const closed = once(held[0] as Socket, 'close');
  expect(await isServed(dial('127.0.0.3'), ask)).toBe(true);
  await closed;
  expect(held.map(({ destroyed }) => destroyed)).toEqual([true, false, false, false]);
  expect(full).toEqual([
    [0, '127.0.0.66'],
    [1, '127.0.0.66'],
  ]);
  for (const finish of slow) finish();
});

test('closes busy connections in batches too, so that not every new one looks at all of them', async () => {
  const { dial, ask, busy, full, slow } = await startServer(3);
  const held: Socket[] = [];
  for (let i = 0; i < 4; i += 1) held.push(await busy('127.0.0.66'));
  const closed = [0, 1].map((i) => once(held[i] as Socket, 'close'));
  expect(await isServed(dial('127.0.0.3'), ask)).toBe(true);
  await Promise.all(closed);
  expect(held.map(({ destroyed }) => destroyed)).toEqual([true, true, false, false]);
  expect(full).toEqual([[2, '127.0.0.66']]);
  for (const finish of slow) finish();
});

test('leaves descriptors for others', () => {
  expect(connectionsWithin(20_000, 500, 1_024)).toBe(524);
  expect(connectionsWithin(20_000, 500, 65_536)).toBe(20_000);
  expect(connectionsWithin(20_000, 500, Number.POSITIVE_INFINITY)).toBe(20_000);
});
