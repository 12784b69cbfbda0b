import { call, Refused } from './calls.js';
import { campaignForm, copiedTerms, nextProductId } from './campaign-form.js';
import { confirmedWith } from './dialog.js';
import { el, say } from './elements.js';
import { Form } from './fields.js';
import { reviewOf } from './review.js';
import type { Terms } from './term-fields.js';
import type { View } from './view.js';

/**
 * The form that creates a campaign, as a draft unless the operator chooses otherwise.
 * @param from product whose campaign is copied; null = none
 */
export function createView(from: string | null): View {
  const { fields, content, named, body, fill } = campaignForm(true);
  let copied: Record<string, unknown> = {};
  const note = el('p', { class: 'notice', role: 'status', hidden: true });
  const form = new Form(
    fields,
    content,
    'Create the campaign',
    async () => {
      const wanted = { ...copied, ...body() };
      if (wanted.draft !== true) {
        const preview = await call<Terms>('POST', '/admin/campaigns?preview=true', wanted);
        if (!(await confirmedWith('Create and publish this campaign?', reviewOf(preview, 0), 'Create and publish')))
          return;
      }
      const { product_id } = await call<{ product_id: string }>('POST', '/admin/campaigns', wanted);
      say(wanted.draft === true ? 'The draft was created. Review and publish it here.' : 'The campaign was created.');
      location.hash = `#/campaigns/${encodeURIComponent(product_id)}`;
    },
    [el('a', { class: 'button', href: '#/' }, 'Cancel')],
  );
  const title = from === null ? 'New campaign' : `Copy of ${from}`;
  if (from !== null) copy(from).catch((error) => refused(error, form));

  async function copy(product: string): Promise<void> {
    const terms = await call<Terms>('GET', `/admin/campaigns/${encodeURIComponent(product)}`);
    const isPast = Date.parse(String(terms.starts_at)) <= Date.now();
    const times = isPast ? { starts_at_local: null, ends_at_local: null } : {};
    copied = copiedTerms(terms);
    // A code is issued only once, so the copy needs another one.
    fill({ ...terms, ...times, code: null, product_id: nextProductId(product) });
    named.product_id.input.focus();
    note.textContent =
      'A product id belongs to one campaign for good, because reservations, orders and codes refer to it. ' +
      'So the copy has a new one: sell the product under it in the shop. Codes are not copied' +
      `${isPast ? ', and neither are the times, which have passed' : ''}.`;
    note.hidden = false;
  }
  return {
    title,
    root: el(
      'div',
      {},
      el('p', { class: 'crumbs' }, el('a', { href: '#/' }, 'Campaigns')),
      el('div', { class: 'head' }, el('h1', { tabindex: -1 }, title)),
      note,
      el('section', { class: 'card', 'aria-label': 'Terms of the new campaign' }, form.root),
    ),
    query: () => null,
    show: () => {},
  };
}

function refused(error: unknown, form: Form): void {
  if (!(error instanceof Refused)) throw error;
  form.show(error.errors, error.message);
}
