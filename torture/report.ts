import type { Recorded } from './history.js';
import { grouped } from './judge/facts.js';
import type { Judgement, Violation } from './judge/violation.js';

const SHOWN_OF_A_KIND = 3;
const EVIDENCE_CHARACTERS = 700;

/** The lines that a person reads at the end of a run. */
export function reportOf(history: Recorded, { violations, slow }: Judgement): string[] {
  return [`calls: ${countsOf(history)}`, ...linesOfAll('SLOW', slow), ...linesOfAll('VIOLATION', violations)];
}

function linesOfAll(name: string, found: readonly Violation[]): string[] {
  const kinds = grouped(found, ({ rule, what }) => `${rule}: ${what.replaceAll(/\d+/g, 'n')}`);
  const shown = [...kinds].flatMap(([, same]) => {
    const rest = same.length - SHOWN_OF_A_KIND;
    const lines = same.slice(0, SHOWN_OF_A_KIND).flatMap((one) => linesOf(name, one));
    return rest > 0 ? [...lines, `    and ${rest} more of this kind`] : lines;
  });
  const totals = [...kinds].map(([kind, same]) => `${String(same.length).padStart(5)} × ${kind}`);
  return [...shown, ...totals];
}

function linesOf(name: string, { rule, what, evidence }: Violation): string[] {
  return [`${name}  ${rule}: ${what}`, ...evidence.map((one) => `    ${short(JSON.stringify(one))}`)];
}

const short = (text = 'nothing') =>
  text.length > EVIDENCE_CHARACTERS ? `${text.slice(0, EVIDENCE_CHARACTERS)} …` : text;

function countsOf({ calls }: Recorded): string {
  const count = new Map<string, number>();
  for (const { kind, status } of calls) {
    const name = `${kind} ${status ?? 'none'}`;
    count.set(name, (count.get(name) ?? 0) + 1);
  }
  return [...count]
    .sort(([a], [b]) => a.localeCompare(b))
    .map(([name, n]) => `${name}: ${n}`)
    .join(', ');
}
