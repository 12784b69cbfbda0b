import type { Branding } from '../../shared/domain/branding.js';
import { EXTERNAL_ID_PATTERN, type ProductId } from '../../shared/domain/ids.js';
import { defineRoute } from '../http/define-route.js';
import type { Route, RouteContract } from '../http/route.js';
import { API_HEADERS } from '../http/security-headers.js';
import type { PublicSales } from './public-sales.js';

const TYPE = 'application/manifest+json';
const contract = {
  operationId: 'getManifest',
  method: 'get',
  path: '/sale/:product_id/manifest.webmanifest',
  summary: 'The web app manifest of a sale page',
  description: 'With it, iPhones can add the page to the Home Screen, which notifications need there.',
  tag: 'flash sale',
  caller: 'anyone',
  anyQuery: true,
  answers: { 200: { description: 'The manifest.', contentTypes: [TYPE] } },
  errors: ['not_found', 'temporarily_unavailable'],
} satisfies RouteContract;

/** It changes only with the brand of a campaign. */
const FOR_FIVE_MINUTES = 'public, max-age=300';

/** GET /sale/:product_id/manifest.webmanifest. It contains nothing of a user, so a CDN may hold it. */
export function manifestRoute(publicSales: PublicSales): Route {
  return defineRoute(contract, async (call) => {
    const { req, res } = call;
    const product = String(req.params.product_id);
    const found = EXTERNAL_ID_PATTERN.test(product) ? await publicSales.of(product as ProductId) : null;
    if (!found) throw call.refusal('not_found', 'No campaign sells this product.');
    const language = typeof req.query.lang === 'string' && /^[a-z]{2,3}$/.test(req.query.lang) ? req.query.lang : null;
    const body = JSON.stringify(manifestOf(product, found.sale.name, found.branding, language));
    call.begin(200, [
      ...API_HEADERS,
      ...['Cache-Control', FOR_FIVE_MINUTES, 'X-Request-Id', req.requestId],
      ...['Content-Type', TYPE, 'Content-Length', String(Buffer.byteLength(body))],
    ]);
    res.end(body);
  });
}

/** @param language of the page; null = that of the browser */
export function manifestOf(product: string, campaignName: string, branding: Branding, language: string | null): object {
  const page = `/sale/${encodeURIComponent(product)}`;
  const name = branding.title ?? campaignName;
  return {
    ...{ id: page, name, short_name: branding.shop_name ?? name, ...(language ? { lang: language } : {}) },
    ...(branding.description ? { description: branding.description } : {}),
    start_url: language ? `${page}?lang=${language}` : page,
    // The service worker has the same scope.
    scope: '/sale/',
    display: 'standalone',
    ...(branding.accent ? { theme_color: branding.accent } : {}),
    // Without a logo, the browser makes an icon of the name.
    icons: branding.logo_url ? [{ src: branding.logo_url, sizes: 'any' }] : [],
  };
}
