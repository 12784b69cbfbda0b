import type { ChallengeFor, Challenges } from '../attestation/challenges.js';
import { HumanChallenges } from '../attestation/human-challenges.js';

export type Solved = {
  /** Solution of a challenge, as sent; null = none */
  solution: string | null;
  /** Identifies the request that uses the solution. */
  use: string;
  network: string;
};

/** A solution that is accepted for the first time, or again for the same request. */
export type Accepted = 'passed' | 'repeated';

/** Requires a challenge that a person solves. While its provider does not respond, a proof of work replaces it. */
export class PersonCheck {
  constructor(
    readonly human: HumanChallenges,
    readonly challenges: Challenges,
  ) {}

  /**
   * @param why text for the caller who has to solve a challenge
   * @throws Problem 403, 503 · EngineUnavailable
   */
  async require({ solution, use, network }: Solved, what: ChallengeFor, why: string): Promise<Accepted> {
    // No device or user has this name: only this server asks for such work, if the provider did not respond.
    const instead = { ...what, subject: `instead|${what.subject}` };
    if (solution === null) throw this.human.demand(what, why);
    if (!HumanChallenges.isSolution(solution)) {
      const outcome = await this.challenges.use(solution, instead, use);
      if (outcome !== 'failed') return outcome;
      throw this.human.demand(what, why);
    }
    const outcome = await this.human.use(solution, what, use, network);
    if (outcome === 'failed') throw this.human.demand(what, `The solution is not valid. ${why}`);
    if (outcome !== 'away') return outcome;
    throw await this.challenges.demand(instead, `The challenge for persons does not work now. ${why}`, true);
  }
}
