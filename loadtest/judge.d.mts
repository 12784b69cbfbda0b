import type { Tally } from './tally.mjs';
import type { CampaignVerdict } from './verdict.mjs';

export function judge(run: {
  answers: Record<string, readonly string[]>;
  tally: Tally;
  checks: readonly { what: string; holds: boolean; found: unknown }[];
  verdicts: readonly CampaignVerdict[];
}): string[];
