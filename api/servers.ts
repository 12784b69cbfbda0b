import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { LIMITS } from '../shared/config/limits.js';
import type { Core } from './core.js';
import { closeServer } from './http/close-server.js';

export type ServersDeps = {
  server: Server;
  /** A listener for operators alone; null = they use the same one. */
  opsServer: Server | null;
  readiness: { draining: boolean };
  /** Sockets of shoppers, on `server`. */
  sockets: { drain(): void; terminate(): void };
};

/**
 * Starts to listen, and registers how the process drains and closes its connections.
 * @throws Error with `code` and `port` when a port is taken
 */
export async function listen({ config, life, log, name }: Core, deps: ServersDeps): Promise<void> {
  const { server, opsServer, readiness, sockets } = deps;
  const url = await listenOn(server, config.port, config.host);
  const opsUrl = opsServer && (await listenOn(opsServer, config.opsPort ?? 0, config.host));
  life.add('HTTP servers', {
    async quiet() {
      // Readiness goes first, so that load balancers send no new clients to this process.
      readiness.draining = true;
      sockets.drain();
      await sleep(LIMITS.shutdown.drainMs);
    },
    async stop() {
      // Sockets end while the last requests are served.
      sockets.terminate();
      await Promise.all([closeServer(server), opsServer && closeServer(opsServer)]);
    },
  });
  log.info({ url, ...(opsUrl ? { ops_url: opsUrl } : {}), name }, 'the API is listening');
}

/** @returns the address it listens on */
async function listenOn(server: Server, port: number, host: string): Promise<string> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, LIMITS.http.connectionBacklog, resolve);
  });
  return `http://${host}:${(server.address() as AddressInfo).port}`;
}
