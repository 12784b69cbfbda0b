import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { expect, test } from '@jest/globals';
import { Metrics } from '../../../shared/observability/metrics.js';
import { atEnd } from '../../../test/harness/cleanup.js';
import { until } from '../../../test/harness/until.js';
import { OpenCounts, shareConnections } from './open-counts.js';

test('counts what each network has open, and forgets what is closed', () => {
  const counts = new OpenCounts(2);
  expect(['a', 'a', 'a', 'b'].map((network) => counts.open(network))).toEqual([true, true, false, true]);
  counts.close('a');
  expect([counts.open('a'), counts.open('a')]).toEqual([true, false]);
});

test('closes connections of a network beyond its share, and takes others again when some have ended', async () => {
  const server = createServer((_, res) => res.end());
  shareConnections(server, 3, new Metrics(false));
  server.listen(0);
  await once(server, 'listening');
  atEnd('the server', () => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const dial = (localAddress: string): Socket => {
    const socket = connect({ port, host: '127.0.0.1', localAddress });
    socket.on('error', () => {
      // The server resets connections beyond the limit.
    });
    return socket;
  };
  const isServed = async (socket: Socket) => {
    socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
    return (await Promise.race([once(socket, 'data'), once(socket, 'close')])).length > 0 && !socket.destroyed;
  };
  const first = [1, 2, 3].map(() => dial('127.0.0.1'));
  for (const socket of first) expect(await isServed(socket)).toBe(true);
  const fourth = dial('127.0.0.1');
  await once(fourth, 'close');
  const neighbour = dial('127.0.0.2');
  expect(await isServed(neighbour)).toBe(true);
  first[0]?.destroy();
  await until('there is room again', async () => {
    const next = dial('127.0.0.1');
    const served = await isServed(next).catch(() => false);
    if (!served) next.destroy();
    return served;
  });
  neighbour.destroy();
});
