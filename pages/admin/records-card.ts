import { call, Refused } from './calls.js';
import { confirmed } from './dialog.js';
import { button, card, el } from './elements.js';
import { may, onlyFor, roleNote } from './role.js';
import { count } from './words.js';

type Verdict = {
  confirmed: number;
  persisted: number;
  in_flight: number;
  lost: number;
  duplicated: number;
  over_cap: number;
  drift: number;
};
type Reconciliation = Verdict & {
  status?: 'running';
  before: Verdict;
  repaired: { journaled: number; refilled: boolean };
  differences: { reservation: string | null; side: string; why: string }[];
};

/** The time limit of the request; it is longer than the service waits for its worker. */
const LIMIT_MS = 20_000;
const SHOWN_DIFFERENCES = 10;

/** Exports the rows in Postgres, and compares them with Redis. */
export function recordsCard(path: string): HTMLElement {
  const result = el('div', { role: 'status' });
  const reconcile = async () => {
    const text =
      'Redis and Postgres are compared unit by unit, and differences that are safe to repair are repaired. If the campaign has to be refilled, ' +
      'every request gets 503 for that moment.';
    if (!(await confirmed('Reconcile now?', text, 'Reconcile'))) return;
    result.replaceChildren(el('p', {}, 'Comparing…'));
    try {
      result.replaceChildren(
        ...resultOf(await call<Reconciliation>('POST', `${path}/reconcile`, undefined, { limitMs: LIMIT_MS })),
      );
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      result.replaceChildren(el('p', { class: 'error' }, error.message));
    }
  };
  return card(
    'Records',
    {},
    el(
      'p',
      { class: 'hint' },
      'Postgres has every redemption. Reconciling compares them with Redis, and repairs differences that are safe to repair.',
    ),
    el(
      'p',
      { class: 'buttons' },
      onlyFor(
        'support',
        el('a', { class: 'button', href: `${path}/redemptions?format=csv`, download: true }, 'Redemptions as CSV'),
      ),
      onlyFor('admin', button('Reconcile', reconcile)),
    ),
    may('support') ? null : roleNote('The list of redemptions', 'support'),
    may('admin') ? null : roleNote('Reconciling', 'admin'),
    result,
  );
}

function resultOf(found: Reconciliation): Node[] {
  if (found.status === 'running') return [el('p', {}, 'The comparison takes longer. Its result will be in the log.')];
  const isClean = found.lost === 0 && found.duplicated === 0 && found.over_cap === 0 && found.drift === 0;
  const { journaled, refilled } = found.repaired;
  const repaired = [
    journaled > 0 ? `${count(journaled)} entries were written to the journal again.` : '',
    refilled ? 'The campaign was refilled from Postgres.' : '',
  ].filter(Boolean);
  const numbers: [string, number][] = [
    ['Confirmed', found.confirmed],
    ['Persisted', found.persisted],
    ['In flight', found.in_flight],
    ['Lost', found.lost],
    ['Duplicated', found.duplicated],
    ['Over the cap', found.over_cap],
    ['Drift', found.drift],
  ];
  const differences = found.differences.slice(0, SHOWN_DIFFERENCES);
  return [
    el(
      'p',
      { class: isClean ? 'good' : 'error' },
      isClean ? 'Redis and Postgres agree.' : 'Redis and Postgres differ.',
      repaired.length > 0 ? ` ${repaired.join(' ')}` : '',
    ),
    el(
      'dl',
      { class: 'facts' },
      ...numbers.flatMap(([name, value]) => [el('dt', {}, name), el('dd', {}, count(value))]),
    ),
    ...(differences.length > 0
      ? [
          el(
            'ul',
            { class: 'wrong' },
            ...differences.map(({ reservation, why }) => el('li', {}, `${reservation ?? 'Counters'}: ${why}`)),
          ),
        ]
      : []),
  ];
}
