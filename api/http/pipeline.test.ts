import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import { type AddressInfo, connect, Socket } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, test } from '@jest/globals';
import { atEnd } from '../../test/harness/cleanup.js';
import { until } from '../../test/harness/until.js';
import { NetworkConnections } from './held-connections.js';
import { afterResponses, idleSince, Pipelines } from './pipeline.js';

/** Requests that a network may have before its other connections are held. */
const READ = 4;

/**
 * A server whose requests wait in `line` until `serve` is called. All connections are of the network of their address;
 * `line` belongs to 127.0.0.1.
 */
async function startServer() {
  const line: { req: IncomingMessage; serve: () => void }[] = [];
  const upgraded: string[] = [];
  const server = createServer((req, res) => {
    res.on('finish', () => pipelines.finished(req.socket));
    pipelines.take(req, () => line.push({ req, serve: () => void res.end(req.url) }));
  });
  server.on('upgrade', (req, socket) =>
    afterResponses(req.socket, () => {
      socket.resume();
      socket.on('data', (chunk) => upgraded.push(String(chunk)));
      socket.write('HTTP/1.1 101 Switching Protocols\r\n\r\n');
    }),
  );
  const pipelines = new Pipelines(server, {
    ...{ inFlight: 8, waiting: 100, isBusy: () => true },
    networkOf: ({ remoteAddress = '' }) => remoteAddress,
    waitingOf: (network) => (network === '127.0.0.1' ? line.length : 0),
    read: () => READ,
  });
  const sockets: Socket[] = [];
  server.on('connection', (socket) => sockets.push(socket));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  atEnd('the server', () => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  /** Opens a connection, which the server has accepted. `answers`: the paths whose responses it has received. */
  const dial = async (localAddress = '127.0.0.1') => {
    const before = sockets.length;
    const answers: string[] = [];
    const socket = connect({ port, host: '127.0.0.1', localAddress }).on('error', () => {});
    socket.on('data', (chunk) => answers.push(...(String(chunk).match(/\/[\w]+(?=$|HTTP)/g) ?? [])));
    atEnd('a connection', () => void socket.destroy());
    await until('the connection is accepted', () => sockets.length > before);
    const ask = (...paths: string[]) =>
      socket.write(paths.map((p) => `GET /${p} HTTP/1.1\r\nHost: x\r\n\r\n`).join(''));
    return { socket, answers, ask };
  };
  /** Serves the first request of the line, then reads connections as a turn does. */
  const serve = async () => {
    line.shift()?.serve();
    await nextTurn();
    return pipelines.readHeld();
  };
  const paths = () => line.map(({ req }) => req.url);
  /** Serves everything. @returns the paths in the order in which they were served */
  const serveAll = async () => {
    const served: (string | undefined)[] = [];
    await until('all is served', async () => {
      served.push(...paths().slice(0, 1));
      const held = await serve();
      return !held && line.length === 0;
    });
    return served;
  };
  return { dial, line, paths, serve, serveAll, sockets, upgraded, pipelines };
}

/** Fills the room of 127.0.0.1. @param has number of its requests that the server has read already */
async function fill({ dial, line }: Awaited<ReturnType<typeof startServer>>, has = 0): Promise<void> {
  const before = line.length;
  for (let i = 0; i < READ - has; i += 1) {
    (await dial()).ask(`full${i}`);
    await until('the request is read', () => line.length > before + i);
  }
}

describe('connections of a network that has requests enough', () => {
  test('are not read until it is their turn, and then all are answered', async () => {
    const it = await startServer();
    await fill(it);
    const late = [await it.dial(), await it.dial(), await it.dial()];
    for (const [i, client] of late.entries()) client.ask(`late${i}a`, `late${i}b`);
    const other = await it.dial('127.0.0.2');
    other.ask('other');
    await until('another network is read', () => it.paths().includes('/other'));
    expect(it.paths()).toEqual(['/full0', '/full1', '/full2', '/full3', '/other']);
    await it.serveAll();
    await until('all are answered', () => late.every(({ answers }) => answers.length === 2));
    expect(late.map(({ answers }) => answers)).toEqual([0, 1, 2].map((i) => [`/late${i}a`, `/late${i}b`]));
  });

  test('are not read either after their last response', async () => {
    const it = await startServer();
    const client = await it.dial();
    client.ask('first');
    await until('the first request is read', () => it.line.length === 1);
    await fill(it, 1);
    const late = await it.dial();
    await it.serve();
    await until('the first response is there', () => client.answers.length === 1);
    client.ask('second');
    late.ask('late');
    const served = await it.serveAll();
    expect(served).toEqual(['/full0', '/full1', '/full2', '/late', '/second']);
  });

  test('are not read although they were idle before, if they had several requests at once', async () => {
    const it = await startServer();
    const [several, single] = [await it.dial(), await it.dial()];
    several.ask('a', 'b');
    single.ask('c');
    await until('the requests are read', () => it.line.length === 2);
    await it.serveAll();
    await until('all are answered', () => several.answers.length === 2 && single.answers.length === 1);
    await fill(it);
    several.ask('later');
    single.ask('at_once');
    await until('the connection that had one request is read', () => it.paths().includes('/at_once'));
    expect(it.paths()).toEqual(['/full0', '/full1', '/full2', '/full3', '/at_once']);
    await it.serveAll();
    await until('all are answered', () => several.answers.length === 3 && single.answers.length === 2);
  });

  test('are read when they became WebSockets before', async () => {
    const it = await startServer();
    const client = await it.dial();
    client.ask('a', 'b');
    await until('the request is read', () => it.line.length === 1);
    await it.serveAll();
    await until('both are answered', () => client.answers.length === 2);
    client.socket.write('GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n');
    await until('it is a WebSocket', () => it.sockets.some((socket) => idleSince(socket) === null));
    await fill(it);
    client.socket.write('hello');
    await until('the WebSocket is read', () => it.upgraded.includes('hello'));
    await it.serveAll();
  });

  test('are not idle, and are forgotten when they are closed', async () => {
    const it = await startServer();
    await fill(it);
    (await it.dial()).ask('late');
    const [held] = it.sockets.slice(-1) as [Socket];
    expect(idleSince(held)).toBeNull();
    held.destroy();
    expect(await it.serveAll()).toEqual(['/full0', '/full1', '/full2', '/full3']);
  });

  test('are read while the body of a request has not arrived', async () => {
    const it = await startServer();
    const client = await it.dial();
    const post = 'POST /post HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n';
    client.socket.write(`GET /first HTTP/1.1\r\nHost: x\r\n\r\n${post}ab`);
    await until('the first request is read', () => it.line.length === 1);
    await fill(it, 2);
    await it.dial();
    // Others are held, so this one would be held behind them.
    it.line.shift()?.serve();
    client.socket.write('cd');
    await until('the body is read', () => it.line.some(({ req }) => req.url === '/post' && req.complete));
    await it.serveAll();
    await until('both are answered', () => client.answers.length === 2);
  });

  test('become WebSockets after their earlier requests', async () => {
    const it = await startServer();
    const client = await it.dial();
    const upgrade = 'GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n';
    client.socket.write(`${['a', 'b'].map((path) => `GET /${path} HTTP/1.1\r\nHost: x\r\n\r\n`).join('')}${upgrade}`);
    await until('the first request is read', () => it.line.length === 1);
    await fill(it, 2);
    await it.dial();
    for (const answered of [1, 2]) {
      it.line.splice(it.paths().indexOf(answered === 1 ? '/a' : '/b'), 1)[0]?.serve();
      await until('it is answered', () => client.answers.length === answered);
    }
    client.socket.write('hello');
    await until('the WebSocket is read', () => it.upgraded.includes('hello'));
    await it.serveAll();
  });

  test('are read although the requests before others take long', async () => {
    const it = await startServer();
    const slow = await it.dial();
    slow.ask('slow', 'b', 'c', 'd', 'e');
    await until('the first request is read', () => it.line.length === 1);
    const late = await it.dial();
    late.ask('late');
    const [taken] = it.line.splice(0, 1);
    await until('the next connection is read', () => {
      it.pipelines.readHeld();
      return it.paths().includes('/late');
    });
    taken?.serve();
    await it.serveAll();
    await until('all are answered', () => slow.answers.length === 5 && late.answers.length === 1);
  });
});

test('a connection with one request does not wait for those with several', () => {
  const network = new NetworkConnections('192.0.2.1');
  const [several1, several2, several3, single] = [1, 2, 3, 4].map(() => new Socket().destroy()) as [
    Socket,
    ...Socket[],
  ];
  for (const socket of [several1, several2, several3]) network.hold(socket as Socket, true);
  network.hold(single as Socket, false);
  const order = [network.next(), network.next(), network.next(), network.next(), network.next()];
  expect(order.indexOf(single)).toBeLessThan(2);
  expect(order.filter((socket) => socket !== single)).toEqual([several1, several2, several3, undefined]);
});
