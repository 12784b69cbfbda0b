import { type Challenge, solveChallenge } from 'altcha-lib';
import { deriveKey } from 'altcha-lib/algorithms/sha';
import { expectProblem } from './checks.js';
import type { Answer } from './clients.js';

/** Solves the challenge of a refusal as a JSON client does. @returns what goes into `challenge_solution` */
export async function solve(refused: Answer): Promise<string> {
  expectProblem(refused, 403, 'challenge_required');
  const challenge = refused.body.challenge as Challenge;
  // Without a limit. By default it gives up after 90 s, which many solvers in one process reach on a busy machine.
  const solution = await solveChallenge({ challenge, deriveKey, timeout: 0 });
  return encode(challenge, solution);
}

export const encode = (challenge: unknown, solution: unknown): string =>
  Buffer.from(JSON.stringify({ challenge, solution })).toString('base64');
