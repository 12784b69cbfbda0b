import { el } from './elements.js';
import type { CampaignNow } from './overview.js';
import { sharesOf, stockText } from './words.js';

const PARTS = ['redeemed', 'held', 'burned', 'free'] as const;

/** The stock as one bar: redeemed, held, burned and free units. */
export function stockBar(): { root: HTMLElement; show(campaign: CampaignNow): void } {
  const parts = PARTS.map((part) => el('span', { class: part }));
  const root = el('div', { class: 'bar', role: 'img' }, ...parts);
  return {
    root,
    show(campaign) {
      const shares = sharesOf(campaign);
      root.classList.toggle('endless', shares === null);
      for (const [i, part] of PARTS.entries()) (parts[i] as HTMLElement).style.width = `${shares?.[part] ?? 0}%`;
      const text = stockText(campaign);
      if (root.getAttribute('aria-label') !== text) root.setAttribute('aria-label', text);
    },
  };
}
