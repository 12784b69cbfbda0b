/**
 * The template of a campaign's checkout URL: where the shop takes the payment for a reservation. Placeholders in braces
 * are replaced by the values of the reservation, percent-encoded.
 */
export const PLACEHOLDERS = {
  order_id: 'id of the order',
  reservation_id: 'id of the reservation',
  product_id: 'id of the product',
  user_id: 'id of the user',
  qty: 'units of the reservation',
  expires_at: 'when the reservation expires, RFC 3339',
  signature: 'proof that this server made the link; the shop verifies it with `verifyPayLink`',
} as const;
export type Placeholder = keyof typeof PLACEHOLDERS;
export type CheckoutUrlValues = Record<Exclude<Placeholder, 'signature'>, string>;

export const MAX_CHECKOUT_URL = 1_024;

const NAMES = Object.keys(PLACEHOLDERS);
const PLACEHOLDER = /\{([^{}]*)\}/g;
/** The origin, before the path. It has no placeholder, so that no value decides where a shopper is sent. */
const ORIGIN = /^https?:\/\/[^/?#\\@{}\s]+(?=\/)/i;

/**
 * Returns what is wrong with a template; null = it is valid.
 * @param nearest finds the known name that is most like an unknown one
 */
export function checkoutUrlProblem(
  template: string,
  nearest: (name: string, known: readonly string[]) => string | null = () => null,
): string | null {
  const unknown = [...template.matchAll(PLACEHOLDER)].map(([, name]) => String(name)).find((it) => !NAMES.includes(it));
  if (unknown !== undefined) {
    const near = nearest(unknown, NAMES);
    const known = NAMES.map((name) => `{${name}}`).join(', ');
    return `has the unknown placeholder {${unknown}}; ${near === null ? '' : `did you mean {${near}}? `}known are ${known}`;
  }
  const sample = template.replace(PLACEHOLDER, 'x');
  if (/[{}]/.test(sample)) return 'has a brace without its counterpart';
  if (!/^https?:\/\//i.test(template) || !URL.canParse(sample)) return 'must be a URL starting with https://';
  if (!ORIGIN.test(template)) return 'must have a host without placeholders, user or password, and a path';
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern rejects control characters
  if (/[\x00-\x1f\x7f]/.test(template)) return 'must not contain control characters';
  if (template.includes('#')) return 'must have no fragment, because a browser does not send it';
  const signatures = template.split('{signature}').length - 1;
  if (signatures > 1) return 'must have {signature} at most once';
  if (signatures === 1 && !template.includes('{reservation_id}') && !template.includes('{order_id}'))
    return 'must have {reservation_id} or {order_id}, which {signature} protects';
  // {signature} covers the link as it is written, and the shop verifies it as a browser sends it.
  const sent = new URL(sample);
  if (signatures === 1 && `${sent.pathname}${sent.search}` !== unsignedPart(sample))
    return `must be written as a browser sends it, so that {signature} is valid there: ${sent.pathname}${sent.search} with its placeholders`;
  return null;
}

/** Whether a valid template contains a placeholder. */
export const hasPlaceholder = (template: string, name: Placeholder): boolean => template.includes(`{${name}}`);

/**
 * Fills a valid template.
 * @param sign makes the signature of a link: the path and query, in which the signature is left out
 */
export function filledCheckoutUrl(
  template: string,
  values: CheckoutUrlValues,
  sign: (unsigned: string) => string,
): string {
  const fill = (signature: string) =>
    template.replace(PLACEHOLDER, (_, name: Placeholder) =>
      name === 'signature' ? signature : encodeURIComponent(values[name]),
    );
  return hasPlaceholder(template, 'signature') ? fill(sign(unsignedPart(fill('')))) : fill('');
}

/** Returns the path and query of a URL, as they are written. */
function unsignedPart(url: string): string {
  return url.replace(ORIGIN, '');
}
