import { call, Refused } from './calls.js';
import { card, el, write } from './elements.js';
import { linkText, type RegionCounts, unitsTexts } from './region-words.js';
import { count } from './words.js';

type RegionsNow = {
  regions: {
    region: string;
    own: boolean;
    problem: string | null;
    reply_age_seconds: number | null;
    units: RegionCounts | null;
  }[];
  in_transit: number;
};
const READ_EVERY_MS = 5_000;
const COLUMNS = ['Free', 'To be paid', 'Paid', 'Waiting'] as const;

/** The regions that sell a product together: their units, what is on the way, and whether they reply. */
export function regionsCard(path: string): { root: HTMLElement; show(regions: unknown): void; close(): void } {
  const body = el('tbody');
  const transit = el('p', { class: 'hint', role: 'status' }, 'Reading…');
  const head = COLUMNS.map((name) => el('th', { scope: 'col', class: 'number' }, name));
  const table = el(
    'table',
    { class: 'plain-table', hidden: true },
    el('caption', { class: 'unseen' }, 'Units by region'),
    el('thead', {}, el('tr', {}, el('th', { scope: 'col' }, 'Region'), ...head)),
    body,
  );
  const root = card('Regions', { class: 'regions', hidden: true }, table, transit);
  let timer: ReturnType<typeof setInterval> | null = null;

  async function read(): Promise<void> {
    try {
      const now = await call<RegionsNow>('GET', `${path}/regions`);
      table.hidden = false;
      body.replaceChildren(...now.regions.map(rowOf));
      const none = 'No units are on the way from this region to another.';
      write(transit, now.in_transit === 0 ? none : `${count(now.in_transit)} units are on the way from this region.`);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      write(transit, error.message);
    }
  }
  return {
    root,
    show(regions) {
      if (!Array.isArray(regions) || timer !== null) return;
      root.hidden = false;
      read();
      timer = setInterval(() => document.visibilityState === 'visible' && read(), READ_EVERY_MS);
    },
    close() {
      if (timer !== null) clearInterval(timer);
    },
  };
}

function rowOf({ region, own, units, ...link }: RegionsNow['regions'][number]): HTMLElement {
  return el(
    'tr',
    {},
    el(
      'th',
      { scope: 'row' },
      own ? `${region} (this one)` : region,
      el('div', { class: 'hint' }, linkText(own, link)),
    ),
    ...unitsTexts(units).map((text) => el('td', { class: 'number' }, text)),
  );
}
