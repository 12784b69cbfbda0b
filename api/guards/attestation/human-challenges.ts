import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { ChallengeProvider } from '../../../shared/config/challenge-provider.js';
import { Problem } from '../../../shared/errors/catalogue.js';
import type { Log } from '../../../shared/observability/log.js';
import { OpenCounts } from '../limits/open-counts.js';
import { type ChallengeFor, type Challenges, OUTCOMES, type SolutionOutcome } from './challenges.js';

export type HumanChallengeDeps = {
  provider: ChallengeProvider;
  challenges: Pick<Challenges, 'bindingOf' | 'isBoundTo' | 'claim' | 'usedBy'>;
  onOutcome: (outcome: 'asked' | 'passed' | 'failed' | 'away') => void;
  log: Log;
};

/** away: the provider did not say whether a person solved it */
export type HumanOutcome = SolutionOutcome | 'away';

/** Begins a solution by a person, in the field of solutions of proofs of work. */
const PREFIX = 'human.';
const TIMEOUT_MS = 2_000;
/** How long a solution stays marked as used. Providers accept one for five minutes at most. */
const MARKED_MS = 600_000;
/** Calls of the provider at the same time: of a process, and of one network. */
const MOST_CALLS = 1_000;
const MOST_CALLS_OF_NETWORK = 100;
/** Longest response by the documentation of Turnstile. */
const MAX_TURNSTILE = 2_048;
/** Error codes of both services that are not about the response. */
const NOT_OF_THE_RESPONSE = [
  'internal-error',
  'missing-input-secret',
  'invalid-input-secret',
  'sitekey-secret-mismatch',
  'not-using-dummy-passcode',
];

const verdictForm = z.object({
  success: z.boolean(),
  cdata: z.string().optional(),
  'error-codes': z.array(z.string()).default([]),
});

/**
 * Challenges that a person solves, by a service such as Turnstile or hCaptcha. A solution is good for one request, and
 * a retry of the request may use it again. Turnstile also says for whom a challenge was shown (`cdata`): then a
 * solution is good for one campaign and one device only.
 */
export class HumanChallenges {
  readonly #calls = new OpenCounts(MOST_CALLS);
  readonly #callsOfNetwork = new OpenCounts(MOST_CALLS_OF_NETWORK);

  constructor(readonly deps: HumanChallengeDeps) {}

  static isSolution(text: string): boolean {
    return text.startsWith(PREFIX);
  }

  /** Returns a refusal that says which challenge to show. */
  demand(what: ChallengeFor, why: string): Problem {
    const { name, siteKey, script } = this.deps.provider;
    this.deps.onOutcome('asked');
    const challenge = {
      ...{ kind: 'human', provider: name, site_key: siteKey, script },
      data: this.deps.challenges.bindingOf(what),
    };
    return new Problem('challenge_required', why, { members: { challenge } });
  }

  /**
   * Verifies a solution and marks it as used.
   * @param use identifies the request; a retry with the same `use` is accepted again
   * @throws Problem 503 if too many solutions are being verified · EngineUnavailable
   */
  async use(text: string, what: ChallengeFor, use: string, network: string): Promise<HumanOutcome> {
    const response = text.slice(PREFIX.length);
    const isTooLong = this.deps.provider.name === 'turnstile' && response.length > MAX_TURNSTILE;
    if (response === '' || isTooLong) return this.#counted('failed');
    const id = `h:${createHash('sha256').update(response).digest('base64url')}`;
    const known = await this.deps.challenges.usedBy(id);
    if (known !== null) return this.#counted(known === use ? 'repeated' : 'failed');
    const outcome = await this.#verify(response, what, network);
    if (outcome !== 'passed') return this.#counted(outcome);
    return this.#counted(OUTCOMES[await this.deps.challenges.claim(id, use, MARKED_MS)]);
  }

  #counted(outcome: HumanOutcome): HumanOutcome {
    this.deps.onOutcome(outcome === 'repeated' ? 'passed' : outcome);
    return outcome;
  }

  async #verify(response: string, what: ChallengeFor, network: string): Promise<HumanOutcome> {
    if (!this.#callsOfNetwork.open(network)) throw busy();
    try {
      if (!this.#calls.open('')) throw busy();
      try {
        return await this.#ask(response, what);
      } finally {
        this.#calls.close('');
      }
    } finally {
      this.#callsOfNetwork.close(network);
    }
  }

  async #ask(response: string, what: ChallengeFor): Promise<HumanOutcome> {
    const { provider, challenges, log } = this.deps;
    const { name, secret, siteKey, verify } = provider;
    try {
      const answer = await fetch(verify, {
        method: 'POST',
        body: new URLSearchParams({ secret, response, ...(name === 'hcaptcha' ? { sitekey: siteKey } : {}) }),
        signal: AbortSignal.timeout(TIMEOUT_MS),
        redirect: 'error',
      });
      // Both services answer 200 also for a wrong solution. What the caller sent may be to blame for a 4xx.
      if (answer.status >= 400 && answer.status < 500) return 'failed';
      if (!answer.ok) throw new Error(`${verify} responded with ${answer.status}`);
      const { success, cdata, 'error-codes': codes } = verdictForm.parse(await answer.json());
      const trouble = codes.filter((code) => NOT_OF_THE_RESPONSE.includes(code));
      if (!success && trouble.length > 0) throw new Error(`${verify} responded with ${trouble.join(', ')}`);
      if (!success) return 'failed';
      return name === 'turnstile' && !challenges.isBoundTo(cdata ?? '', what) ? 'failed' : 'passed';
    } catch (error) {
      log.warn({ reason: String(error) }, 'CHALLENGE_PROVIDER does not respond, so work is asked for instead');
      return 'away';
    }
  }
}

const busy = () =>
  new Problem('temporarily_unavailable', 'Too many solutions are being verified.', { retryAfterSeconds: 1 });
