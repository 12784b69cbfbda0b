import type { Server } from 'node:http';
import type { Socket } from 'node:net';

/** The port is closed when nobody has come for so long, at the latest after the limit. */
const QUIET_MS = 30;
const QUIET_LIMIT_MS = 500;
const SWEEP_IDLE_MS = 100;

/**
 * Closes the port, and returns when everybody who had reached it is answered. The system resets those who stand in its
 * queue of connections when a port closes. So for a moment connections are only taken out of that queue and held; when
 * nobody comes any more the port is closed, and those who were held are served like any other.
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
    await new Promise((resolve) => setTimeout(resolve, QUIET_MS));
  }
}
