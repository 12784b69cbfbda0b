import { z } from 'zod';
import { COLOUR_PATTERN } from '../../shared/domain/colour.js';
import { en } from '../../shared/sale-page/texts.js';
import { amount, currency, note, storable } from '../http/fields.js';

const MAX_TEXT = 400;
const MAX_DESCRIPTION = 500;
const MAX_LANGUAGES = 12;
/** Characters that would break out of an attribute or the content security policy are not in a URL, but in a text. */
const isWebUrl = (text: string, origin: RegExp): boolean =>
  origin.test(text) && /^[^\s"'<>\\;,]+$/.test(text) && URL.canParse(text) && new URL(text).username === '';
const url = storable.max(1_024, 'must have at most 1024 characters');
const picture = url.refine((text) => isWebUrl(text, /^https:\/\/./), 'must be an https URL without a user name');
/** A shop on the machine of its developer has no certificate. */
const link = url.refine(
  (text) => isWebUrl(text, /^(?:https:\/\/.|http:\/\/(?:localhost|127\.0\.0\.1)(?:[:/?#]|$))/),
  'must be an https URL without a user name; http is allowed on localhost',
);

const text = storable.min(1, 'must not be empty').max(MAX_TEXT, `must have at most ${MAX_TEXT} characters`);
const NAMES = Object.entries(en).flatMap(([name, value]) => (typeof value === 'string' ? [name] : []));
const texts = z.strictObject(Object.fromEntries(NAMES.map((name) => [name, text.optional()])));
const languageTag = z.string().regex(/^[a-z]{2,3}$/, 'must be a language of ISO 639, such as `en` or `ar`');

/** How the sale page looks and what it calls things (shared/domain/branding.ts). */
export const branding = z
  .strictObject({
    title: note.min(1, 'must not be empty').optional().describe('default: the name of the campaign'),
    description: storable.max(MAX_DESCRIPTION, `must have at most ${MAX_DESCRIPTION} characters`).optional(),
    shop_name: note.min(1, 'must not be empty').optional(),
    shop_url: link.optional().describe('where the page leads back to'),
    order_url: link.optional().describe('where a shopper who has paid finds the order'),
    image_url: picture.optional().describe('a picture of the product, from an origin of IMAGE_ORIGINS'),
    image_alt: note.optional().describe('what the picture shows, for those who do not see it'),
    logo_url: picture.optional().describe('the logo of the shop, from an origin of IMAGE_ORIGINS'),
    price: amount.min(0, 'must not be below 0').optional().describe('of one unit, in minor units of `currency`'),
    currency: currency.optional(),
    accent: z
      .string()
      .regex(COLOUR_PATTERN, 'must be a colour like #b3261e')
      .optional()
      .describe('colour of buttons; adjusted where it could not be read'),
    contact_url: link.optional(),
    terms_url: link.optional(),
    privacy_url: link.optional(),
    forward_to_checkout: z.boolean().optional().describe('opens `checkout_url` by itself when a shopper gets a unit'),
    texts: z
      .record(languageTag, texts)
      .refine((given) => Object.keys(given).length <= MAX_LANGUAGES, `must have at most ${MAX_LANGUAGES} languages`)
      .optional()
      .describe('texts of the page by language; those that are missing are the built-in or the English ones'),
  })
  .superRefine(({ price, currency }, context) => {
    if ((price === undefined) === (currency === undefined)) return;
    const path = [price === undefined ? 'price' : 'currency'];
    context.addIssue({ code: 'custom', path, message: 'must be given, because a price needs both' });
  })
  .describe('the sale page of this campaign (docs/sale-page.md)');
