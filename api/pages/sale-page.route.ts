import { LRUCache } from 'lru-cache';
import { imageOrigins } from '../../shared/domain/branding.js';
import { EXTERNAL_ID_PATTERN, type ProductId } from '../../shared/domain/ids.js';
import { EngineUnavailable } from '../../shared/errors/faults.js';
import { acceptedLanguages, languageOf, type PageLanguages, withTexts } from '../../shared/sale-page/languages.js';
import { defineRoute } from '../http/define-route.js';
import type { Route, RouteContract } from '../http/route.js';
import { pageHeaders } from '../http/security-headers.js';
import { type StaticFile, sendFile, staticFile } from '../http/static-file.js';
import type { FoundSale, PublicSales } from './public-sales.js';
import { saleHtml } from './sale-html.js';

const contentTypes = ['text/html'];
const contract = {
  operationId: 'getSalePage',
  method: 'get',
  path: '/sale/:product_id',
  summary: 'The page of a sale',
  tag: 'flash sale',
  caller: 'anyone',
  anyQuery: true,
  answers: {
    200: { description: 'The page with the name and the state of the sale.', contentTypes, headers: ['ETag'] },
    304: { description: 'The client has the current version.', contentTypes, headers: ['ETag'] },
    404: { description: 'A page: no such sale.', contentTypes, headers: ['ETag'] },
  },
  errors: [],
} satisfies RouteContract;

/** Rendered pages of one process: a page of 20 KB with its compressed form, for each state and language. */
const PAGES_KEPT = 500;
/** Pages without a sale, one for each language and state. */
const OTHERS_KEPT = 50;
/** Stands for the id in them. No id and no text has it. */
const ANY_ID = '\ue000';
const FOR_A_SECOND = 'public, max-age=1';

export type SalePageDeps = {
  template: string;
  publicSales: PublicSales;
  languages: PageLanguages;
  /** Origins whose pages may show this page in a frame. */
  frameAncestors: readonly string[];
  /** IMAGE_ORIGINS. */
  imageOrigins: readonly string[];
  /** Public key for notifications; null = there are none. */
  pushKey: string | null;
  /** Sources of the challenge that a person solves. */
  challengeSources: readonly string[];
};

/** GET /sale/:product_id. A visit costs one small read of Redis; each version of a page is rendered once. */
export function salePageRoute(deps: SalePageDeps): Route {
  const pages = new LRUCache<string, StaticFile>({ max: PAGES_KEPT });
  const others = new LRUCache<string, StaticFile>({ max: OTHERS_KEPT });
  return defineRoute(contract, async (call) => {
    const { req } = call;
    const asks = String(req.params.product_id);
    // The page shows no text that cannot be an id.
    const product = EXTERNAL_ID_PATTERN.test(asks) ? asks : '';
    const found = product ? await readSale(deps.publicSales, product as ProductId) : null;
    const languages = withTexts(deps.languages, found?.branding.texts ?? {});
    const asked = typeof req.query.lang === 'string' ? [req.query.lang] : [];
    const accepted = acceptedLanguages(String(req.headers['accept-language'] ?? ''));
    const language = languageOf([...asked, ...accepted], languages);
    const [kept, id] = found ? [pages, product] : [others, product && ANY_ID];
    const key = `${id}|${language}|${found ? found.version : String(found)}`;
    let page = kept.get(key);
    if (!page) {
      const html = saleHtml(deps.template, { product: id, found, languages, language, pushKey: deps.pushKey });
      page = fileOf(html, found, deps);
      kept.set(key, page);
    }
    return found ? sendFile(call, page) : sendFile(call, withId(page, product), found === null ? 404 : 200);
  });
}

/**
 * Puts the id into a page without a sale. It is not compressed: anybody can ask for any number of ids. The ETag stays,
 * because each id has its own URL.
 */
function withId(page: StaticFile, id: string): StaticFile {
  return { ...page, body: Buffer.from(page.body.toString().replaceAll(ANY_ID, id)), zipped: 'never' };
}

/** Returns null if there is no such sale, undefined if it cannot be read now: then the page itself retries. */
async function readSale(publicSales: PublicSales, product: ProductId): Promise<FoundSale | null | undefined> {
  try {
    return await publicSales.of(product);
  } catch (error) {
    if (error instanceof EngineUnavailable) return undefined;
    throw error;
  }
}

function fileOf(
  html: string,
  found: FoundSale | null | undefined,
  {
    frameAncestors,
    challengeSources,
    ...deps
  }: Pick<SalePageDeps, 'frameAncestors' | 'imageOrigins' | 'challengeSources'>,
) {
  const images = found ? imageOrigins(found.branding).filter((origin) => deps.imageOrigins.includes(origin)) : [];
  // The colours of the brand; escaped values have no tag.
  const [, style = ''] = /<style>(.*?)<\/style>/s.exec(html) ?? [];
  const headers = pageHeaders({ images, frameAncestors, challenges: challengeSources, style });
  const cacheControl = found ? FOR_A_SECOND : 'no-store';
  return staticFile('text/html; charset=utf-8', Buffer.from(html), cacheControl, headers, ['Accept-Language']);
}
