import type { FinalState } from '../final-state.js';
import type { Recorded } from '../history.js';
import { backupsAreKept } from './backups.js';
import { capsHold } from './caps.js';
import { stockIsConserved } from './conservation.js';
import { type CampaignFacts, Facts } from './facts.js';
import { reservationsEndOnce } from './finality.js';
import { framesAreRight } from './frames.js';
import { keysHaveOneResponse } from './keys.js';
import { lineIsStrict } from './line.js';
import { campaignsHaveOnePlace } from './moves.js';
import { promisesAreKept } from './promises.js';
import { serviceComesBack } from './recovery.js';
import { responsesAreRight } from './responses.js';
import { exceptionsAreExplained } from './traces.js';
import type { Finding, Judgement } from './violation.js';

const RULES: readonly ((facts: Facts) => Finding[])[] = [
  promisesAreKept,
  keysHaveOneResponse,
  capsHold,
  lineIsStrict,
  stockIsConserved,
  reservationsEndOnce,
  exceptionsAreExplained,
  responsesAreRight,
  framesAreRight,
  serviceComesBack,
  campaignsHaveOnePlace,
  backupsAreKept,
];

/** Compares the whole history with what is left after it. No violations when the service kept every rule. */
export function judge(recorded: Recorded, final: FinalState, campaigns: readonly CampaignFacts[]): Judgement {
  const facts = new Facts(recorded, final, campaigns);
  const findings = RULES.flatMap((rule) => rule(facts));
  const of = (wanted: boolean) =>
    findings.filter(({ isSlow = false }) => isSlow === wanted).map(({ isSlow: _, ...violation }) => violation);
  return { violations: of(false), slow: of(true) };
}
