import type { Redis } from 'ioredis';
import type { HostAndPort } from './redis-target.js';

const SWITCHED = '+switch-master';
/** Polling interval, which makes up for lost announcements and detects Sentinels that no longer reply. */
const LOOK_EVERY_MS = 1_000;

/**
 * Tracks the primary that the Sentinels name, by their announcements of failovers and by polling. The decision with the
 * highest configuration epoch counts, because a Sentinel on the wrong side of a partition still names the old primary.
 */
export class SentinelWatch {
  readonly #interval: NodeJS.Timeout;
  #epoch = -1;

  constructor(
    readonly name: string,
    readonly sentinels: readonly Redis[],
    /** Called after every poll with the primary of the latest decision; `decided` = the decision is new. */
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
      // Sends both in one pipeline. The first already names the promoted replica while the others are reconfigured; the
      // second contains the epoch.
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
      // This Sentinel is unavailable or does not know the name; another one replies.
    }
  }
}
