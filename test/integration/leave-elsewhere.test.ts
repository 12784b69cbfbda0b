import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { Writable } from 'node:stream';
import { expect, test } from '@jest/globals';
import { pino } from 'pino';
import { LeaveElsewhere } from '../../api/realtime/leave-elsewhere.js';
import { atEnd } from '../harness/cleanup.js';

/** What a reader makes of the responses of a process that writes. */
async function startWriter(answer: RequestListener) {
  const sockets = new Set<Socket>();
  const server = createServer(answer).listen(0, '127.0.0.1');
  server.on('connection', (socket) => sockets.add(socket));
  await once(server, 'listening');
  atEnd('the writer', () => {
    server.closeAllConnections();
    server.close();
  });
  const lines: string[] = [];
  const stream = new Writable({
    write(chunk, _, done) {
      lines.push(String(chunk));
      done();
    },
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const elsewhere = new LeaveElsewhere(url, pino(stream));
  atEnd('its connections', () => elsewhere.close());
  return { elsewhere, sockets, lines };
}
const json =
  (status: number, body: unknown): RequestListener =>
  (_, res) => {
    res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  };
const LEFT = json(200, { data: { status: 'left' } });

test('sends the ticket as a client does', async () => {
  const calls: unknown[] = [];
  const { elsewhere } = await startWriter((req, res) => {
    calls.push([req.method, req.url, req.headers['x-ticket']]);
    LEFT(req, res);
  });
  expect(await elsewhere.leave('ticket-1')).toBe('left');
  expect(calls).toEqual([['DELETE', '/flash-sale/queue', 'ticket-1']]);
});

test.each<[string, RequestListener, string]>([
  ['left', LEFT, 'left'],
  ['not waiting', json(409, { code: 'not_waiting' }), 'not_waiting'],
  ['a campaign that is gone', json(404, { code: 'campaign_not_found' }), 'not_waiting'],
  ['a path that does not exist', json(404, { code: 'not_found' }), 'away'],
  ['a ticket that is not valid', json(401, { code: 'ticket_invalid' }), 'away'],
  ['overload', json(503, { code: 'temporarily_unavailable' }), 'away'],
  ['a redirect', (_, res) => void res.writeHead(302, { location: '/other' }).end(), 'away'],
  ['another server', (_, res) => void res.end('<h1>hello</h1>'), 'away'],
  ['no body', (_, res) => void res.end(), 'away'],
  ['a body without end', (_, res) => void setInterval(() => res.write('x'.repeat(1_000)), 5).unref(), 'away'],
  ['a connection that breaks', (req) => void req.socket.destroy(), 'away'],
])('%s', async (_, answer, outcome) => {
  const { elsewhere } = await startWriter(answer);
  expect(await elsewhere.leave('ticket-1')).toBe(outcome);
});

test('a crowd that leaves at once shares a few connections, and what is too much is refused', async () => {
  let arrived = 0;
  let refused = 0;
  const { elsewhere, sockets } = await startWriter((req, res) => {
    arrived += 1;
    LEFT(req, res);
  });
  const calls = Array.from({ length: 1_200 }, async () => {
    const outcome = await elsewhere.leave('ticket-1');
    if (arrived === 0) refused += 1;
    return outcome;
  });
  expect(await calls[0]).toBe('left');
  // Those beyond 1,000 were refused before any was answered. On a busy machine others may take too long.
  expect(refused).toBe(200);
  // Now, because a call that takes too long gives its connection up for another one.
  expect(sockets.size).toBeLessThanOrEqual(16);
  await Promise.all(calls);
});

test('an outage is one line in the log, and its end another', async () => {
  let isAway = true;
  const { elsewhere, lines } = await startWriter((req, res) =>
    isAway ? void res.writeHead(502).end() : LEFT(req, res),
  );
  for (let i = 0; i < 50; i += 1) expect(await elsewhere.leave('a-secret-ticket')).toBe('away');
  expect(lines).toHaveLength(1);
  expect(lines[0]).toContain('it responded with 502');
  isAway = false;
  expect(await elsewhere.leave('a-secret-ticket')).toBe('left');
  expect(lines).toHaveLength(2);
  expect(lines.join()).not.toContain('a-secret-ticket');
});
