import { createHash } from 'node:crypto';
import type { DuePush } from '../../shared/postgres/push-subscriptions.js';
import { languageOf, type PageLanguage, type PageLanguages, withTexts } from '../../shared/sale-page/languages.js';
import type { PushPayload } from '../../shared/sale-page/push-payload.js';

/** Push services take 4,096 bytes with the encryption. Names and texts of a campaign may have three bytes each. */
const MAX_TITLE = 120;
const MAX_BODY = 800;

/** A message as the push service gets it. `topic`: a later message replaces one that is not delivered yet. */
export type PushMessage = { payload: string; topic: string; urgency: 'high' | 'normal' };

type About = Pick<DuePush, 'kind' | 'language' | 'productId' | 'name' | 'branding' | 'payBefore'>;

/** Writes the message of a campaign in the language of the page. */
export function pushMessage(about: About, installed: PageLanguages): PushMessage {
  const { kind, productId, branding, payBefore } = about;
  const languages = withTexts(installed, branding?.texts ?? {});
  const lang = languageOf([about.language], languages);
  const { dir, texts } = languages.get(lang) as PageLanguage;
  const { title, detail } = wordsOf(kind, payBefore !== null, texts);
  const tag = `doorbuster|${productId}`;
  const payload: PushPayload = {
    title: title.slice(0, MAX_TITLE),
    body: `${branding?.title ?? about.name}\n${detail}`.slice(0, MAX_BODY),
    pay_before: payBefore?.toISOString() ?? null,
    url: `/sale/${encodeURIComponent(productId)}?lang=${lang}#turn`,
    lang,
    dir,
    tag,
  };
  return {
    payload: JSON.stringify(payload),
    // At most 32 characters of base64url.
    topic: createHash('sha256').update(tag).digest('base64url').slice(0, 32),
    urgency: kind === 'promoted' ? 'high' : 'normal',
  };
}

function wordsOf(
  kind: DuePush['kind'],
  pays: boolean,
  texts: PageLanguage['texts'],
): { title: string; detail: string } {
  switch (kind) {
    case 'promoted':
      return pays
        ? { title: texts.yourTurn, detail: texts.payBefore }
        : { title: texts.gotOne, detail: texts.nothingToPay };
    case 'line_closed':
      return { title: texts.closed, detail: texts.soldOutFinal };
    case 'campaign_closed':
      return { title: texts.closed, detail: texts.closedEnded };
    case 'place_ended':
      return { title: texts.placeEnded, detail: texts.placeEndedDetail };
    default:
      return kind satisfies never;
  }
}
