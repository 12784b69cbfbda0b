import type { FinalState } from '../final-state.js';
import type { Recorded } from '../history.js';
import { capsHold } from './caps.js';
import { stockIsConserved } from './conservation.js';
import { type CampaignFacts, Facts } from './facts.js';
import { reservationsEndOnce } from './finality.js';
import { framesAreRight } from './frames.js';
import { keysHaveOneResponse } from './keys.js';
import { lineIsStrict } from './line.js';
import { promisesAreKept } from './promises.js';
import { serviceComesBack } from './recovery.js';
import { responsesAreRight } from './responses.js';
import { exceptionsAreExplained } from './traces.js';
import type { Violation } from './violation.js';

const RULES = [
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
];

/** Compares the whole history with what is left after it. Empty when the service kept every rule. */
export function judge(recorded: Recorded, final: FinalState, campaigns: readonly CampaignFacts[]): Violation[] {
  const facts = new Facts(recorded, final, campaigns);
  return RULES.flatMap((rule) => rule(facts));
}
