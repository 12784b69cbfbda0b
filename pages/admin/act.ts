import { ask } from './dialog.js';
import { el, say } from './elements.js';
import { type Field, Form, field, numberOf, textOf } from './fields.js';

/**
 * Asks for a reason and confirmation, and acts.
 * @param consequence what the action causes
 * @param changed reads again what is shown
 * @param keep a field for the units that stay; null = none
 */
export function act(
  title: string,
  consequence: string,
  yes: string,
  send: (body: { reason?: string; keep?: number | string }) => Promise<unknown>,
  changed: () => Promise<void>,
  keep: Field | null = null,
): void {
  ask(title, (close) => {
    const reason = field({ pointer: '#/reason', label: 'Reason', hint: 'Optional; for the audit log.' });
    const fields = keep ? [keep, reason] : [reason];
    return new Form(fields, [el('p', {}, consequence), ...fields.map(({ root }) => root)], yes, async () => {
      const given = textOf(reason) ? { reason: textOf(reason) } : {};
      // The service rejects an empty field, which could mean all units or none.
      await send(keep ? { ...given, keep: numberOf(keep) ?? '' } : given);
      close();
      say('Done.');
      await changed();
    });
  });
}
