import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { setTimeout as sleep, setImmediate as turnOfPolling } from 'node:timers/promises';

/** Closes the port when no connection arrives for `QUIET_MS`, and at the latest after `QUIET_LIMIT_MS`. */
const QUIET_MS = 30;
const QUIET_LIMIT_MS = 500;
const SWEEP_IDLE_MS = 100;

/**
 * Closes the port and resolves when every accepted request has its response. When a port closes, the kernel resets the
 * connections in its accept queue. The server therefore first accepts and holds new connections. When no more arrive,
 * it closes the port and serves the held connections.
 */
export async function closeServer(server: Server): Promise<void> {
  const held: Socket[] = [];
  const serve = server.listeners('connection') as ((socket: Socket) => void)[];
  server.removeAllListeners('connection');
  server.on('connection', (socket) => held.push(socket));
  await untilQuiet(() => held.length);
  const closed = new Promise((resolve) => server.close(resolve));
  server.removeAllListeners('connection');
  for (const listener of serve) server.on('connection', listener);
  for (const socket of held) server.emit('connection', socket);
  const sweep = setInterval(() => server.closeIdleConnections(), SWEEP_IDLE_MS);
  await closed;
  clearInterval(sweep);
}

async function untilQuiet(arrivals: () => number): Promise<void> {
  const deadline = performance.now() + QUIET_LIMIT_MS;
  for (let before = -1; arrivals() !== before && performance.now() < deadline; ) {
    before = arrivals();
    await sleep(QUIET_MS);
    // A busy process has not looked for connections in that time, and runs timers before it does.
    await turnOfPolling();
  }
}
