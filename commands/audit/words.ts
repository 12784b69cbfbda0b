import type { ChainEntry, ChainReport } from '../../shared/postgres/audit-chain.js';
import type { HistoryReport } from './redemption-chain.js';

/** Without characters that a terminal would obey, or that change the order of what is shown. */
const shown = (text: string): string =>
  text.replace(/\p{C}/gu, (character) => `\\u{${character.codePointAt(0)?.toString(16)}}`);

type Values = Readonly<Record<string, unknown>>;

/** Returns an entry as lines for a terminal: who, when, what, why, and each value before and after. */
export function lineOfEntry({ at, actor, action, before, after }: ChainEntry): string {
  const { reason, ...now } = after ?? {};
  const why = typeof reason === 'string' && reason !== '' ? `  “${reason}”` : '';
  return [`${at.toISOString()}  ${actor}  ${action}${why}`, ...changes(before ?? {}, now)].map(shown).join('\n');
}

function changes(before: Values, after: Values): string[] {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  const textOf = (value: unknown) => (value === undefined ? '–' : JSON.stringify(value));
  return names
    .map((name) => [name, textOf(before[name]), textOf(after[name])] as const)
    .filter(([, was, is]) => was !== is)
    .map(([name, was, is]) => `    ${name}: ${was === '–' ? is : `${was} → ${is}`}`);
}

/** @param campaign product id; null = entries that concern no campaign */
export function lineOfReport(report: ChainReport, campaign: string | null): string {
  const { source, entries, removed, erased, head, broken } = report;
  const about = campaign === null ? 'the service' : campaign;
  const by = source === 'operator' ? 'operators' : 'the journal';
  if (broken) {
    const id = broken.auditId === null ? '' : ` (id ${broken.auditId})`;
    return `CHANGED  ${about}, by ${by}: entry ${broken.no}${id}: ${broken.why}`;
  }
  const parts = [
    `${entries} ${entries === 1 ? 'entry' : 'entries'}`,
    ...(removed > 0 ? [`${removed} older removed by AUDIT_KEEP_DAYS`] : []),
    ...(erased > 0 ? [`${erased} about erased users: whom, and the reason, cannot be verified any more`] : []),
    ...(head === '' ? [] : [`head ${head}`]),
  ];
  return `whole    ${about}, by ${by}: ${parts.join(' · ')}`;
}

/** @param campaign product id */
export function lineOfHistory({ bucket, entries, erased, head, broken }: HistoryReport, campaign: string): string {
  const about = `${campaign}, reservations${bucket === 0 ? '' : ` of bucket ${bucket}`}`;
  if (broken) {
    const which = broken.reservation === null ? '' : ` (reservation ${broken.reservation})`;
    return `CHANGED  ${about}: batch ${broken.batch}${which}: ${broken.why}`;
  }
  const erasedOnes = erased > 0 ? [`${erased} of erased users: their reasons cannot be verified any more`] : [];
  return `whole    ${about}: ${[`${entries} ${entries === 1 ? 'change' : 'changes'}`, ...erasedOnes, `head ${head}`].join(' · ')}`;
}
