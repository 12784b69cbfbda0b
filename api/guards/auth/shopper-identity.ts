import { subtle, type webcrypto } from 'node:crypto';
import type { Request } from 'express';
import { createRemoteJWKSet, errors, type JWTVerifyOptions, type JWTVerifyResult, jwtVerify } from 'jose';
import type { IdentityConfig } from '../../../shared/config/identity.js';
import { LIMITS } from '../../../shared/config/limits.js';
import type { Attributes } from '../../../shared/domain/audience.js';
import { decodeBase64url } from '../../../shared/domain/base64url.js';
import { Problem } from '../../../shared/errors/catalogue.js';
import type { RedisClock } from '../../../shared/redis/redis-clock.js';
import { bearerOf } from './api-keys.js';
import { HandOvers } from './hand-over.js';

/** Who a request comes from. */
export type Identity = {
  /** Whether the request proves that it comes from this user. */
  proven: boolean;
  /** The user's attributes from a signed source; null = none is configured, and those of the body apply. */
  attributes: Attributes | null;
  /** The one campaign that the proof is for; null = each. */
  product: string | null;
};

/** What a valid proof says. */
type Proof = { user: string; attributes: Attributes; product: string | null };
/** @returns null when the proof is missing or not valid. @throws Problem 503 when it cannot be judged now */
type Verify = (req: Request) => Promise<Proof | null>;

const UNPROVEN: Identity = { proven: false, attributes: null, product: null };
const JWKS_TIMEOUT_MS = 1_500;
/** The clock of the login service may be ahead by twice as much: `nbf` is often the moment of issue. `exp` is taken as it is. */
const CLOCK_TOLERANCE_SECONDS = 3;
/** By the kind of the key, so that a public key is never taken for a shared secret. */
const SECRET_ALGORITHMS = ['HS256', 'HS384', 'HS512'];
const PUBLIC_KEY_ALGORITHMS = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
  'Ed25519',
];

/** Answers who a shopper is, by the mode of `SHOPPER_IDENTITY` (docs/identity.md). */
export class ShopperIdentity {
  readonly #verify: Verify | null;
  readonly #challenge: { scheme: string; missing: string };

  constructor(
    config: IdentityConfig,
    /** `exp`, `nbf` and `expires_at` are judged by the one clock. */
    clock: Pick<RedisClock, 'nowMs'>,
  ) {
    this.#verify =
      config.mode === 'jwt'
        ? jwtVerifier(config, clock)
        : config.mode === 'signed'
          ? handOverVerifier(config, clock)
          : null;
    this.#challenge =
      config.mode === 'signed'
        ? { scheme: 'Shopper', missing: 'A valid X-Shopper of the shop is needed: missing, forged or expired.' }
        : { scheme: 'Bearer', missing: 'A valid bearer JWT of the shopper is needed.' };
  }

  /** Whether shoppers prove who they are. */
  get proves(): boolean {
    return this.#verify !== null;
  }

  /**
   * @throws Problem 401 when a proof is required and missing or not valid, 403 when it belongs to another user, 503 when
   * the login service does not answer
   */
  async identify(req: Request, user: string): Promise<Identity> {
    if (this.#verify === null) return UNPROVEN;
    const proof = await this.#verify(req);
    if (proof === null) {
      const { scheme, missing } = this.#challenge;
      throw new Problem('unauthorized', missing, { headers: { 'WWW-Authenticate': `${scheme} realm="doorbuster"` } });
    }
    if (proof.user !== user) throw new Problem('forbidden', 'The proof of identity belongs to another user.');
    return { proven: true, attributes: proof.attributes, product: proof.product };
  }
}

/** @throws Problem 403 when the proof is for another campaign than this one */
export function assertProofFor(identity: Identity, product: string): void {
  if (identity.product !== null && identity.product !== product)
    throw new Problem('forbidden', 'The proof of identity is for another campaign.');
}

function jwtVerifier(config: Extract<IdentityConfig, { mode: 'jwt' }>, clock: Pick<RedisClock, 'nowMs'>): Verify {
  const { key, issuers, audiences, attributes } = config;
  const options: JWTVerifyOptions = {
    algorithms: key.kind === 'secret' ? SECRET_ALGORITHMS : PUBLIC_KEY_ALGORITHMS,
    requiredClaims: ['exp', 'sub'],
    ...(issuers.length > 0 ? { issuer: [...issuers] } : {}),
    ...(audiences.length > 0 ? { audience: [...audiences] } : {}),
  };
  const verify = signatureVerifier(key);
  return async (req) => {
    const jwt = bearerOf(req);
    // The library decodes several texts to the same JWT.
    if (jwt === null || !jwt.split('.').every((part) => decodeBase64url(part) !== null)) return null;
    try {
      const { payload } = await verify(jwt, {
        ...options,
        clockTolerance: CLOCK_TOLERANCE_SECONDS,
        currentDate: new Date(clock.nowMs() + CLOCK_TOLERANCE_SECONDS * 1000),
      });
      if (typeof payload.sub !== 'string') return null;
      const named = attributes.filter((name) => Object.hasOwn(payload, name)).map((name) => [name, payload[name]]);
      return { user: payload.sub, attributes: Object.fromEntries(named), product: null };
    } catch (error) {
      if (blamesTheToken(error)) return null;
      throw new Problem('temporarily_unavailable', 'The login service does not answer.', { retryAfterSeconds: 1 });
    }
  };
}

function signatureVerifier(
  key: Extract<IdentityConfig, { mode: 'jwt' }>['key'],
): (jwt: string, options: JWTVerifyOptions) => Promise<JWTVerifyResult> {
  if (key.kind === 'secret') {
    const imported = importedSecret(key.secret);
    return (jwt, options) => jwtVerify(jwt, imported, options);
  }
  const keySet = createRemoteJWKSet(key.url, { timeoutDuration: JWKS_TIMEOUT_MS });
  return (jwt, options) => jwtVerify(jwt, keySet, options);
}

/** Imports the secret once for each algorithm, which `jwtVerify` would do for each JWT. It calls this for an accepted `alg` only. */
function importedSecret(secret: Uint8Array): ({ alg }: { alg: string }) => Promise<webcrypto.CryptoKey> {
  const keys = new Map<string, Promise<webcrypto.CryptoKey>>();
  return ({ alg }) => {
    let key = keys.get(alg);
    if (!key) {
      const algorithm = { name: 'HMAC', hash: `SHA-${alg.slice(-3)}` };
      key = subtle.importKey('raw', Buffer.from(secret), algorithm, false, ['verify']);
      keys.set(alg, key);
    }
    return key;
  };
}

function handOverVerifier(
  { keys }: Extract<IdentityConfig, { mode: 'signed' }>,
  clock: Pick<RedisClock, 'nowMs'>,
): Verify {
  const handOvers = new HandOvers(keys, clock, LIMITS.handOverLifeMs);
  return async (req) => {
    const text = req.headers['x-shopper'];
    return typeof text === 'string' ? handOvers.verify(text) : null;
  };
}

/** Any other error means that the key set could not be read: a refused connection, a malformed response, a timeout. */
function blamesTheToken(error: unknown): boolean {
  return (
    error instanceof errors.JOSEError &&
    error.code !== errors.JOSEError.code &&
    !(error instanceof errors.JWKSTimeout) &&
    !(error instanceof errors.JWKSInvalid)
  );
}
