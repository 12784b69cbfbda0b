import type { Suspicion } from './counter.js';

const KIND = { user_id: 'user', device_fp: 'device' } as const;

export type BansOptions = {
  /** Address of the API, with the port for operators where there is one. */
  api: string;
  /** Secret of an operator. */
  key: string;
  banMs: number;
};

/** Bans users and devices through the admin API. Every process of the service enforces a ban within moments. */
export class Bans {
  constructor(readonly options: BansOptions) {}

  /**
   * Bans the subject of a suspicion, unless it is banned already: a repeated event makes no second ban.
   * @returns whether it was banned now
   * @throws when the API rejects the ban or does not respond; the event is then handled again
   */
  async ban({ rule, who, count }: Suspicion): Promise<boolean> {
    const kind = KIND[rule.by];
    const known = await this.#call('GET', `?${new URLSearchParams({ effect: 'ban', kind, subject: who, limit: '1' })}`);
    if (known.data.length > 0) return false;
    await this.#call('POST', '', {
      kind,
      subject: who,
      until: new Date(Date.now() + this.options.banMs).toISOString(),
      reason: `${count} redemptions within ${rule.windowMs / 1_000} s`,
    });
    return true;
  }

  async #call(method: 'GET' | 'POST', path: string, body?: object): Promise<{ data: unknown[] }> {
    const { api, key } = this.options;
    const response = await fetch(`${api}/admin/bans${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      ...(body ? { body: JSON.stringify(body) } : {}),
      signal: AbortSignal.timeout(5_000),
    });
    if (!response.ok) throw new Error(`${method} /admin/bans responded with ${response.status}`);
    return (await response.json()) as { data: unknown[] };
  }
}
