import type { Redis } from 'ioredis';
import type { HostAndPort } from './redis-target.js';

const SWITCHED = '+switch-master';
/** Finds what an announcement missed, and a Sentinel that no longer answers. */
const LOOK_EVERY_MS = 1_000;

/**
 * Follows what the Sentinels say about the primary, by their announcement of a failover and by asking them. The latest
 * decision counts (the highest configuration epoch): a Sentinel on the wrong side of a partition still names the old primary.
 */
export class SentinelWatch {
  readonly #interval: NodeJS.Timeout;
  #epoch = -1;

  constructor(
    readonly name: string,
    readonly sentinels: readonly Redis[],
    /** Called again and again with the primary of the latest decision; `decided`: for the first time after another one. */
    readonly onPrimary: (address: HostAndPort, decided: boolean) => void,
  ) {
    for (const sentinel of sentinels) {
      sentinel.on('message', (channel: string, message: string) => {
        if (channel === SWITCHED && message.startsWith(`${name} `)) void this.#look(sentinel);
      });
      sentinel.on('ready', () => {
        sentinel.subscribe(SWITCHED).catch(() => {});
        void this.#look(sentinel);
      });
    }
    this.#interval = setInterval(() => {
      for (const sentinel of sentinels) if (sentinel.status === 'ready') void this.#look(sentinel);
    }, LOOK_EVERY_MS).unref();
  }

  stop(): void {
    clearInterval(this.#interval);
    for (const sentinel of this.sentinels) sentinel.disconnect();
  }

  async #look(sentinel: Redis): Promise<void> {
    try {
      // Sent together. The first names the promoted replica already while the others are attached to it; the second has the epoch.
      const replies = await sentinel
        .pipeline()
        .call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', this.name)
        .call('SENTINEL', 'MASTER', this.name)
        .exec();
      const [address, details] = (replies ?? []).map(([, reply]) => reply);
      if (!Array.isArray(address) || !Array.isArray(details)) return;
      const epoch = Number(details[details.indexOf('config-epoch') + 1]);
      if (!(epoch >= this.#epoch)) return;
      const decided = this.#epoch >= 0 && epoch > this.#epoch;
      this.#epoch = epoch;
      this.onPrimary({ host: String(address[0]), port: Number(address[1]) }, decided);
    } catch {
      // This Sentinel is away or does not know the name; another one answers.
    }
  }
}
