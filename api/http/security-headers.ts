import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import helmet from 'helmet';

type HelmetOptions = Parameters<typeof helmet>[0];

/**
 * Returns the headers that helmet would set, as a flat list of names and values. They are computed once because they
 * are constant, and running helmet per response costs a third of a checkout (docs/decisions/0005-http-edge.md).
 */
export function securityHeaders(options: HelmetOptions = {}): readonly string[] {
  const list: string[] = [];
  const response = {
    setHeader: (name: string, value: string | number) => list.push(name, String(value)),
    removeHeader: () => {},
  };
  helmet(options)({ headers: {} } as IncomingMessage, response as unknown as ServerResponse, (error?: unknown) => {
    if (error) throw error;
  });
  return list;
}

/** Headers of JSON responses: a browser may not load, frame or sniff anything. */
export const API_HEADERS = securityHeaders({
  contentSecurityPolicy: { useDefaults: false, directives: { defaultSrc: ["'none'"], frameAncestors: ["'none'"] } },
});

/**
 * Headers of the own pages, which load everything from this server.
 * @param images further origins of images
 * @param frameAncestors further origins whose pages may show the page in a frame
 * @param challenges sources of the challenge that a person solves
 * @param style the only style of the page that is not in a file; null = any
 */
export function pageHeaders({
  images,
  frameAncestors,
  challenges = [],
  style = null,
}: {
  images: readonly string[];
  frameAncestors: readonly string[];
  challenges?: readonly string[];
  style?: string | null;
}): readonly string[] {
  return securityHeaders({
    contentSecurityPolicy: {
      directives: {
        ...(challenges.length > 0
          ? Object.fromEntries(['scriptSrc', 'frameSrc', 'connectSrc'].map((kind) => [kind, ["'self'", ...challenges]]))
          : {}),
        styleSrc: ["'self'", style === null ? "'unsafe-inline'" : hashOf(style), ...challenges],
        imgSrc: ["'self'", 'data:', ...images],
        frameAncestors: ["'self'", ...frameAncestors],
        upgradeInsecureRequests: null,
      },
    },
    // This older header knows no list; `frame-ancestors` replaces it.
    ...(frameAncestors.length > 0 ? { frameguard: false } : {}),
  });
}

/** The source of an inline style by its hash. */
const hashOf = (style: string) => `'sha256-${createHash('sha256').update(style).digest('base64')}'`;

export const PAGE_HEADERS = pageHeaders({ images: [], frameAncestors: [] });
