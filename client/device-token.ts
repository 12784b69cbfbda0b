import { isDeviceToken } from './answers.js';
import { type Answer, type Calls, Refusal } from './calls.js';

/** A token is valid for 30 s, and accepted for a little longer. This limit leaves time for a slow network. */
const TOKEN_FRESH_MS = 25_000;

type Options = {
  device: () => Promise<string>;
  /** Solves a challenge; null = it cannot be solved. */
  solve: (challenge: unknown) => Promise<Record<string, unknown> | null>;
};

/** The device token for checkouts. Requested again when it is about to expire. */
export class DeviceToken {
  #token: { fields: Record<string, unknown>; readAt: number } | null = null;

  constructor(
    readonly calls: Calls,
    readonly options: Options,
  ) {}

  /** The fields of a checkout that contain the token. @throws Refusal */
  async fields(): Promise<Record<string, unknown>> {
    if (!this.#token || performance.now() - this.#token.readAt > TOKEN_FRESH_MS) {
      const path = `/flash-sale/token?device_fp=${encodeURIComponent(await this.options.device())}`;
      try {
        this.#keep(await this.calls.once({ method: 'GET', path, fits: isDeviceToken }));
      } catch (error) {
        await this.prove(await this.solve(error));
      }
    }
    return this.#token?.fields ?? {};
  }

  /** Requests a token with a proof: a solved challenge, or an attestation of the app's platform. @throws Refusal */
  async prove(proof: Record<string, unknown>): Promise<void> {
    const body = { device_fp: await this.options.device(), ...proof };
    this.#keep(await this.calls.once({ method: 'POST', path: '/flash-sale/token', body, fits: isDeviceToken }));
  }

  /** Drops a token that the server has refused. The next call requests another one. */
  drop(): void {
    this.#token = null;
  }

  /**
   * Solves the challenge in a refusal.
   * @throws the refusal, if it has no challenge or the challenge cannot be solved
   */
  async solve(error: unknown): Promise<Record<string, unknown>> {
    if (!(error instanceof Refusal) || error.code !== 'challenge_required') throw error;
    const solved = await this.options.solve(error.problem.challenge ?? {});
    if (!solved) throw error;
    return solved;
  }

  #keep({ data: { attestation, device_fp, expires_at } }: Answer): void {
    this.#token = { fields: { attestation, device_fp, expires_at }, readAt: performance.now() };
  }
}
