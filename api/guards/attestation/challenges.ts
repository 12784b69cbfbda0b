import { createHmac, type KeyObject } from 'node:crypto';
import { createChallenge, verifySolution } from 'altcha-lib';
import { deriveKey } from 'altcha-lib/algorithms/sha';
import type { Challenge, Payload } from 'altcha-lib/types';
import { z } from 'zod';
import type { SigningKey } from '../../../shared/config/environment-values.js';
import { Problem } from '../../../shared/errors/catalogue.js';
import { EngineUnavailable } from '../../../shared/errors/faults.js';
import { keys } from '../../../shared/redis/keys.js';
import type { CallerShards } from '../../../shared/shards/shards.js';

/**
 * Binding of a challenge: one campaign, and one device or, without a device, one user.
 * `network`: of the caller, which raises the cost if it storms the campaign; it binds nothing.
 */
export type ChallengeFor = { product: string; subject: string; network?: string };
/**
 * passed: accepted for the first time · repeated: accepted before, for the same request · failed: forged, bound to
 * something else, expired, not solved, or used by another request
 */
export type SolutionOutcome = 'passed' | 'repeated' | 'failed';
/** The use of an id. `taken`: by another request before. */
export type Use = 'first' | 'repeated' | 'taken';
/** What the use of a solution that is right comes to. */
export const OUTCOMES: Readonly<Record<Use, SolutionOutcome>> = {
  first: 'passed',
  repeated: 'repeated',
  taken: 'failed',
};

export type ChallengeDeps = {
  keys: readonly SigningKey[];
  shards: CallerShards;
  nowMs: () => number;
  /** Number of attempts on a campaign in the last second, or of the network alone if it is larger. */
  perSecond: (product: string, network?: string) => number;
  onOutcome: (outcome: 'asked' | 'passed' | 'failed') => void;
  limits: { challengeLifeMs: number };
};

const MAX_SOLUTION_CHARACTERS = 4_096;
/** Required prefix of the hash: 4,096 tries on average. */
const PREFIX = '000';
/** Attempts per second → hashes per try: from 30 ms to half a second on a server's core. */
const COSTS = [
  [0, 8],
  [100, 16],
  [1_000, 64],
  [5_000, 128],
] as const;

const HARDEST = Math.max(...COSTS.map(([, cost]) => cost));

const payload = z.object({
  challenge: z.object({
    parameters: z.looseObject({
      algorithm: z.literal('SHA-256'),
      nonce: z.string().regex(/^[0-9a-f]{32}$/),
      cost: z.int().min(1).max(1_024),
      expiresAt: z.number(),
      data: z.object({ kid: z.string(), for: z.string() }),
    }),
    signature: z.string(),
  }),
  solution: z.object({ counter: z.int().min(0), derivedKey: z.string().max(128) }),
});

/**
 * Proofs of work in the format of ALTCHA, whose widget solves them in a page. A new challenge is not stored: it is
 * signed together with its binding. `SET NX` records a used solution, so that only one of many concurrent uses passes.
 * The binding is a keyed hash, so that a challenge does not reveal the campaign of a code.
 */
export class Challenges {
  readonly #byId: ReadonlyMap<string, KeyObject>;
  readonly #signing: SigningKey;

  constructor(readonly deps: ChallengeDeps) {
    const [first] = deps.keys;
    if (!first) throw new Error('at least one key is required');
    this.#signing = first;
    this.#byId = new Map(deps.keys.map(({ id, key }) => [id, key]));
  }

  /** Returns a refusal with a new challenge. @param isHard as hard as in the worst attack */
  async demand(what: ChallengeFor, why: string, isHard = false): Promise<Problem> {
    const { id, key } = this.#signing;
    const { nowMs, limits } = this.deps;
    const challenge = await createChallenge({
      algorithm: 'SHA-256',
      cost: isHard ? HARDEST : this.costOf(what),
      keyPrefix: PREFIX,
      deriveKey,
      expiresAt: Math.floor((nowMs() + limits.challengeLifeMs) / 1000),
      data: { kid: id, for: boundTo(key, what) },
      hmacSignatureSecret: secretOf(key),
    });
    this.deps.onOutcome('asked');
    return new Problem('challenge_required', why, { members: { challenge } });
  }

  costOf({ product, network }: Pick<ChallengeFor, 'product' | 'network'>): number {
    const perSecond = this.deps.perSecond(product, network);
    return COSTS.findLast(([from]) => perSecond >= from)?.[1] ?? COSTS[0][1];
  }

  /**
   * Verifies a solution and marks it as used.
   * @param use identifies the request; a retry with the same `use` is accepted again
   * @throws EngineUnavailable
   */
  async use(text: string, what: ChallengeFor, use: string): Promise<SolutionOutcome> {
    const outcome = await this.#outcomeOf(text, what, use);
    this.deps.onOutcome(outcome === 'failed' ? 'failed' : 'passed');
    return outcome;
  }

  async #outcomeOf(text: string, what: ChallengeFor, use: string): Promise<SolutionOutcome> {
    const sent = parse(text);
    if (!sent) return 'failed';
    const { nonce, expiresAt, data } = sent.challenge.parameters;
    const key = this.#byId.get(data.kid);
    const { nowMs, limits } = this.deps;
    if (!key || data.for !== boundTo(key, what) || expiresAt * 1000 < nowMs()) return 'failed';
    const { verified } = await verifySolution({
      challenge: sent.challenge as unknown as Challenge,
      solution: sent.solution as Payload['solution'],
      deriveKey,
      hmacSignatureSecret: secretOf(key),
    });
    if (!verified) return 'failed';
    return OUTCOMES[await this.claim(`c:${nonce}`, use, limits.challengeLifeMs + 60_000)];
  }

  /** Returns the binding of a challenge as a text that reveals neither campaign nor device. */
  bindingOf(what: ChallengeFor): string {
    return boundTo(this.#signing.key, what);
  }

  /** Whether a text is the binding of a challenge, made with any of the keys. */
  isBoundTo(text: string, what: ChallengeFor): boolean {
    return [...this.#byId.values()].some((key) => boundTo(key, what) === text);
  }

  /** Returns the recorded use of an id; null = there is none. @throws EngineUnavailable */
  async usedBy(id: string): Promise<string | null> {
    const { gate, commands } = this.deps.shards.spread(id);
    try {
      return await gate.guard(() => commands.get(keys.used(id)));
    } catch (error) {
      throw EngineUnavailable.from('redis', error);
    }
  }

  /** Records the use of an id for `forMs` milliseconds. @throws EngineUnavailable */
  async claim(id: string, use: string, forMs: number): Promise<Use> {
    const { gate, commands } = this.deps.shards.spread(id);
    try {
      const before = await gate.guard(() => commands.set(keys.used(id), use, 'PX', forMs, 'NX', 'GET'));
      if (before === null) return 'first';
      return before === use ? 'repeated' : 'taken';
    } catch (error) {
      throw EngineUnavailable.from('redis', error);
    }
  }
}

function parse(text: string): z.infer<typeof payload> | null {
  if (text.length > MAX_SOLUTION_CHARACTERS) return null;
  try {
    return payload.safeParse(JSON.parse(Buffer.from(text, 'base64').toString())).data ?? null;
  } catch {
    return null;
  }
}

/** The word `challenge` distinguishes these signatures from those of device tokens, which use the same keys. */
const secretOf = (key: KeyObject): string => createHmac('sha256', key).update('challenge').digest('hex');

function boundTo(key: KeyObject, { product, subject }: ChallengeFor): string {
  return createHmac('sha256', key).update(`challenge-for|${product}|${subject}`).digest('base64url').slice(0, 22);
}
