import { subtle, type webcrypto } from 'node:crypto';
import type { Request } from 'express';
import { createRemoteJWKSet, errors, type JWTVerifyOptions, type JWTVerifyResult, jwtVerify } from 'jose';
import type { IdentityConfig } from '../../../shared/config/identity.js';
import { LIMITS } from '../../../shared/config/limits.js';
import type { Attributes } from '../../../shared/domain/audience.js';
import { decodeBase64url } from '../../../shared/domain/base64url.js';
import { Problem } from '../../../shared/errors/catalogue.js';
import type { RedisClock } from '../../../shared/redis/redis-clock.js';
import { type Person, personIn } from '../abuse/requirements.js';
import { bearerOf } from './api-keys.js';
import { HandOvers, type Proof } from './hand-over.js';

/** Identity of the user of a request, and what the shop has signed of the person. */
export type Identity = Person & {
  /** Whether the request proves that it comes from this user. */
  proven: boolean;
  /**
   * The user's attributes from a signed source; null = no source is configured, and the attributes in the body apply.
   */
  attributes: Attributes | null;
  /** The only campaign that the proof is for; null = every campaign. */
  product: string | null;
};

/** @returns null if the proof is missing or not valid. @throws Problem 503 if it cannot be verified now */
type Verify = (req: Request) => Promise<Proof | null>;

const UNPROVEN: Identity = { proven: false, attributes: null, product: null };
const JWKS_TIMEOUT_MS = 1_500;
/**
 * The clock of the login service may be ahead by twice this time, because `nbf` is often the time of issue. `exp` gets
 * no tolerance.
 */
const CLOCK_TOLERANCE_SECONDS = 3;
/** Values of `typ`. A logout token or an event of the same issuer has another one. */
const ACCEPTED_TYPES = /^(?:application\/)?(?:at\+)?jwt$/i;
/** Algorithms by kind of key, so that a public key is never used as a shared secret. */
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

/** Verifies the identity of shoppers according to `SHOPPER_IDENTITY` (docs/identity.md). */
export class ShopperIdentity {
  readonly #verify: Verify | null;
  readonly #challenge: { scheme: string; missing: string };

  constructor(
    config: IdentityConfig,
    /** The clock of Redis, which `exp`, `nbf` and `expires_at` are compared with. */
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
        ? { scheme: 'Shopper', missing: 'X-Shopper is missing, forged or expired.' }
        : { scheme: 'Bearer', missing: 'The bearer JWT of the shopper is missing or not valid.' };
  }

  /** Whether shoppers have to prove their identity. */
  get proves(): boolean {
    return this.#verify !== null;
  }

  /**
   * Verifies that a request comes from a user.
   * @throws Problem 401 if a required proof is missing or not valid, 403 if it belongs to another user, 503 if the
   * login service does not respond
   */
  async identify(req: Request, user: string): Promise<Identity> {
    if (this.#verify === null) return UNPROVEN;
    const proof = await this.#verify(req);
    if (proof === null) {
      const { scheme, missing } = this.#challenge;
      throw new Problem('unauthorized', missing, { headers: { 'WWW-Authenticate': `${scheme} realm="doorbuster"` } });
    }
    const { user: prover, ...proven } = proof;
    if (prover !== user) throw new Problem('forbidden', 'The proof of identity belongs to another user.');
    return { proven: true, ...proven };
  }
}

/** Requires that a proof is valid for a campaign. @throws Problem 403 if it is for another campaign */
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
    // The library accepts several encodings of the same JWT; only the canonical one is valid here.
    if (jwt === null || !jwt.split('.').every((part) => decodeBase64url(part) !== null)) return null;
    try {
      const { payload, protectedHeader } = await verify(jwt, {
        ...options,
        clockTolerance: CLOCK_TOLERANCE_SECONDS,
        currentDate: new Date(clock.nowMs() + CLOCK_TOLERANCE_SECONDS * 1000),
      });
      if (typeof payload.sub !== 'string' || !ACCEPTED_TYPES.test(protectedHeader.typ ?? 'JWT')) return null;
      const named = attributes.filter((name) => Object.hasOwn(payload, name)).map((name) => [name, payload[name]]);
      return { user: payload.sub, attributes: Object.fromEntries(named), product: null, ...personIn(payload) };
    } catch (error) {
      if (blamesTheToken(error)) return null;
      throw new Problem('temporarily_unavailable', 'The login service does not respond.', { retryAfterSeconds: 1 });
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

/**
 * Imports the secret once per algorithm; `jwtVerify` would import it for every JWT. The library asks only for accepted
 * algorithms.
 */
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
  const handOvers = new HandOvers(keys, clock, LIMITS.auth.handOverLifeMs);
  return async (req) => {
    const text = req.headers['x-shopper'];
    return typeof text === 'string' ? handOvers.verify(text) : null;
  };
}

/**
 * Whether an error is the fault of the token. Any other error means that the key set could not be read: a refused
 * connection, a malformed response, a timeout.
 */
function blamesTheToken(error: unknown): boolean {
  return (
    error instanceof errors.JOSEError &&
    error.code !== errors.JOSEError.code &&
    !(error instanceof errors.JWKSTimeout) &&
    !(error instanceof errors.JWKSInvalid)
  );
}
