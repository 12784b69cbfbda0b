import type { Request } from 'express';
import { createRemoteJWKSet, errors, jwtVerify } from 'jose';
import type { Config } from '../../shared/config/config.js';
import { Problem } from '../../shared/errors/catalogue.js';
import type { RedisClock } from '../../shared/redis/redis-clock.js';
import { bearerOf } from './api-keys.js';

/** What a caller states about a user, by name, for audiences and the risk rules. */
export type Attributes = Record<string, unknown>;

/** Who a request comes from. */
export type Identity = {
  /** Whether the request proves that it comes from this user. */
  proven: boolean;
  /** The user's attributes from a signed source; null = none is configured, and those of the body apply. */
  attributes: Attributes | null;
};

const UNPROVEN: Identity = { proven: false, attributes: null };

/** Without a login the gateway in front vouches for `user_id`; with one configured, the JWT's `sub` must be it. */
export class ShopperIdentity {
  readonly #verify: ((jwt: string) => Promise<string | undefined>) | null;

  constructor(
    config: Config['shopperJwt'],
    /** `exp` and `nbf` are judged by the one clock. */
    clock: Pick<RedisClock, 'nowMs'>,
  ) {
    const currentDate = () => new Date(clock.nowMs());
    if (config.kind === 'none') this.#verify = null;
    else if (config.kind === 'secret') {
      this.#verify = async (jwt) =>
        (
          await jwtVerify(jwt, config.secret, {
            algorithms: ['HS256', 'HS384', 'HS512'],
            currentDate: currentDate(),
          })
        ).payload.sub;
    } else {
      const keySet = createRemoteJWKSet(config.url, { timeoutDuration: 1_500 });
      this.#verify = async (jwt) => (await jwtVerify(jwt, keySet, { currentDate: currentDate() })).payload.sub;
    }
  }

  /** @throws Problem 401 when a JWT is required and missing or not valid, 403 when it belongs to another user */
  async identify(req: Request, user: string): Promise<Identity> {
    if (this.#verify === null) return UNPROVEN;
    const jwt = bearerOf(req);
    let subject: string | undefined;
    try {
      subject = jwt === null ? undefined : await this.#verify(jwt);
    } catch (error) {
      if (!blamesTheToken(error)) {
        throw new Problem('temporarily_unavailable', 'The login service does not answer.', { retryAfterSeconds: 1 });
      }
    }
    if (subject === undefined) {
      throw new Problem('unauthorized', 'A valid bearer JWT of the shopper is needed.', {
        headers: { 'WWW-Authenticate': 'Bearer realm="doorbuster"' },
      });
    }
    if (subject !== user) throw new Problem('forbidden', 'The JWT belongs to another user.');
    return { proven: true, attributes: null };
  }

  get required(): boolean {
    return this.#verify !== null;
  }
}

/** Everything else is a key set that could not be had: a refused connection, an answer that is none, a time-out. */
function blamesTheToken(error: unknown): boolean {
  return (
    error instanceof errors.JOSEError &&
    error.code !== errors.JOSEError.code &&
    !(error instanceof errors.JWKSTimeout) &&
    !(error instanceof errors.JWKSInvalid)
  );
}
