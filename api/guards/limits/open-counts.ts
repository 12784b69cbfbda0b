import type { Server } from 'node:http';
import type { Metrics } from '../../../shared/observability/metrics.js';
import { networkNotation, parseAddress } from '../caller/address.js';

/** How many of something each network has open in this process, up to a limit, so that one network cannot have all of it. */
export class OpenCounts {
  readonly #counts = new Map<string, number>();

  constructor(readonly limit: number) {}

  /** Counts one more. @returns false when the network has as many as it may; then nothing is counted */
  open(network: string): boolean {
    const count = this.#counts.get(network) ?? 0;
    if (count >= this.limit) return false;
    this.#counts.set(network, count + 1);
    return true;
  }

  /** One that was counted is closed. */
  close(network: string): void {
    const count = (this.#counts.get(network) ?? 0) - 1;
    if (count > 0) this.#counts.set(network, count);
    else this.#counts.delete(network);
  }
}

/**
 * Closes connections of a network beyond its share. Only where clients connect themselves: behind proxies all connections are the
 * proxies' own.
 */
export function shareConnections(server: Server, perNetwork: number, metrics: Metrics): void {
  const counts = new OpenCounts(perNetwork);
  server.prependListener('connection', (socket) => {
    const address = parseAddress(socket.remoteAddress ?? '');
    const network = address === null ? 'unknown' : networkNotation(address);
    if (counts.open(network)) {
      socket.once('close', () => counts.close(network));
      return;
    }
    metrics.limited.inc({ policy: 'connections' });
    socket.destroy();
  });
}
