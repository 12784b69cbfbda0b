import { call, Refused } from './calls.js';
import { ask } from './dialog.js';
import { el, say } from './elements.js';
import { Form, field, numberOf, textOf } from './fields.js';
import type { CampaignNow } from './overview.js';
import { isLargeRestock, restockText } from './restock-words.js';
import { count } from './words.js';

/**
 * Asks for a change of the stock, and says what it causes. A large one has to be typed twice. The form is sent with one
 * idempotency key, so that sending it again has no further effect.
 */
export function restock(path: string, now: CampaignNow, changed: () => void): void {
  const key = `restock-${[...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16)).join('-')}`;
  ask('Restock', (close) => {
    const delta = field({
      pointer: '#/delta',
      label: 'Units to add',
      hint: `Now ${count(now.total)}, of which ${count(now.free)} free. A negative number removes free units. Added units go to the line first.`,
      attributes: { inputmode: 'numeric', required: true },
    });
    const again = field({
      pointer: '#/again',
      label: 'The same number again',
      hint: 'This is a large change, and promoted units cannot be taken back.',
      attributes: { inputmode: 'numeric' },
    });
    again.root.hidden = true;
    const consequence = el('p', { class: 'reason', role: 'status' });
    consequence.hidden = true;
    const explain = () => {
      const wanted = numberOf(delta);
      const text = typeof wanted === 'number' ? restockText(wanted, now) : '';
      consequence.textContent = text;
      consequence.hidden = text === '';
      again.root.hidden = typeof wanted !== 'number' || !isLargeRestock(wanted, now);
    };
    delta.input.addEventListener('input', explain);
    return new Form([delta, again], [delta.root, consequence, again.root], 'Change the stock', async () => {
      explain();
      const wanted = numberOf(delta);
      if (!again.root.hidden && textOf(again) !== textOf(delta))
        throw new Refused(400, 'invalid_request', '', [
          { pointer: '#/again', detail: `Type ${textOf(delta)} again to confirm` },
        ]);
      await call('POST', `${path}/stock`, { delta: wanted ?? null }, { headers: { 'Idempotency-Key': key } });
      say(`The stock was changed by ${wanted}.`);
      changed();
      close();
    });
  });
}
