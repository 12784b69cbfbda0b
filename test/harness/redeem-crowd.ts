import { randomUUID } from 'node:crypto';
import { KeepAlive } from './keep-alive.js';
import { forEachAtMost } from './shoppers.js';

export type Attempt = { code: string; user: string };
export type Told = Attempt & { outcome: string; reservation: string | null };

/** Users who redeem at once, each with a key. They retry with it after a lost response or a `Retry-After`. */
export class RedeemCrowd {
  readonly told: Told[] = [];
  /** Requests that were not answered, or with 503. */
  repeated = 0;
  readonly #connections: KeepAlive;

  constructor(
    /** Address of an API; asked anew for each try. */
    readonly target: () => string,
    readonly width = 200,
  ) {
    this.#connections = new KeepAlive(width);
  }

  /** @returns the final responses of these users */
  async redeem(attempts: readonly Attempt[]): Promise<Told[]> {
    const told: Told[] = [];
    await forEachAtMost(this.width, attempts, async ({ code, user }) => {
      const fields = { code, user_id: user, order_id: `order-of-${user}` };
      const { status, body } = await this.#untilAnswered(fields, randomUUID());
      const outcome = `${status} ${body.data?.status ?? body.code}`;
      const one = { code, user, outcome, reservation: body.data?.reservation_id ?? null };
      told.push(one);
      this.told.push(one);
    });
    return told;
  }

  async #untilAnswered(fields: object, key: string): Promise<{ status: number; body: Record<string, any> }> {
    for (;;) {
      const url = `${this.target()}/coupons/redeem`;
      const reply = await this.#connections.post(url, fields, { 'idempotency-key': key });
      if (reply && reply.status !== 503) return reply;
      this.repeated += 1;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

/** Counts the responses by kind. */
export function countOutcomes(told: readonly Told[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { outcome } of told) counts[outcome] = (counts[outcome] ?? 0) + 1;
  return counts;
}
