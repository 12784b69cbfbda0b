import { answer, call, Refused, sendAnswer } from './calls.js';
import { campaignForm, changedOf } from './campaign-form.js';
import { confirmedWith } from './dialog.js';
import { el, say } from './elements.js';
import { Form } from './fields.js';
import type { TermChange, Terms } from './term-fields.js';
import { changeTable } from './versions-card.js';
import type { View } from './view.js';

/** The form that changes the terms of a campaign. The operator sees what differs before it is stored. */
export function editView(product: string): View {
  const path = `/admin/campaigns/${encodeURIComponent(product)}`;
  const back = `#/campaigns/${encodeURIComponent(product)}`;
  const { fields, content, body, fill } = campaignForm(false);
  let before: Record<string, unknown> | null = null;
  let version = 0;
  const form = new Form(
    fields,
    content,
    'Review the change',
    async () => {
      if (before === null) throw new Refused(0, 'unread', 'The campaign could not be read. Reload this page.');
      const changed = changedOf(before, body());
      const { changes = [] } = await sendAnswer<{ changes?: TermChange[] }>('PATCH', `${path}?preview=true`, changed);
      if (changes.length === 0) throw new Refused(0, 'unchanged', 'Nothing was changed.');
      const review = el(
        'div',
        {},
        changeTable(changes),
        el(
          'p',
          { class: 'hint' },
          'New terms apply to new reservations. Those that exist keep the terms that they were made under.',
        ),
      );
      if (!(await confirmedWith('Store this change?', review, 'Store the change'))) return;
      const { data } = await answer<{ data: Terms }>(path);
      if (Number(data.version) !== version)
        throw new Refused(
          409,
          'campaign_conflict',
          'Another operator has changed the campaign meanwhile. Reload this page.',
        );
      await call('PATCH', path, changed);
      say('The terms were changed.');
      location.hash = back;
    },
    [el('a', { class: 'button', href: back }, 'Cancel')],
  );
  const read = async () => {
    const terms = await call<Terms>('GET', path);
    fill(terms);
    version = Number(terms.version);
    before = body();
  };
  read().catch((error) => {
    if (!(error instanceof Refused)) throw error;
    form.show(error.errors, error.message);
  });
  return {
    title: `Edit ${product}`,
    root: el(
      'div',
      {},
      el('p', { class: 'crumbs' }, el('a', { href: back }, product)),
      el('div', { class: 'head' }, el('h1', { tabindex: -1 }, `Edit ${product}`)),
      el('section', { class: 'card', 'aria-label': 'Terms of the campaign' }, form.root),
    ),
    query: () => null,
    show: () => {},
  };
}
