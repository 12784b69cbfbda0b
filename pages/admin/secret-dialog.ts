import { notice } from './dialog.js';
import { button, el, say } from './elements.js';

/** Shows a secret that cannot be read again, until the operator has closed the dialog. */
export function showSecret(title: string, secret: string): Promise<void> {
  const shown = el('input', { type: 'text', readonly: true, value: secret, 'aria-label': 'Secret', class: 'secret' });
  const copy = button('Copy', async () => {
    shown.select();
    // Without TLS browsers have no clipboard; the text is selected then.
    await navigator.clipboard?.writeText(secret);
    say(navigator.clipboard ? 'The secret is copied.' : 'Copy the selected text.');
  });
  const text = 'Store it now, in a place for secrets: it is not shown again.';
  return notice(
    title,
    el('div', {}, el('p', {}, text), shown, el('p', { class: 'buttons' }, copy)),
    'I have stored it',
  );
}
