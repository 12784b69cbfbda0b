import type { IncomingMessage, ServerResponse } from 'node:http';
import helmet from 'helmet';

type HelmetOptions = Parameters<typeof helmet>[0];

/**
 * The headers that helmet would set, computed once as a flat list of names and values: they are the same on every
 * answer, and running helmet for each costs a third of a checkout (docs/decisions/0005-http-edge.md).
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

/** For JSON answers nothing may be loaded, framed or sniffed. */
export const API_HEADERS = securityHeaders({
  contentSecurityPolicy: { useDefaults: false, directives: { defaultSrc: ["'none'"], frameAncestors: ["'none'"] } },
});

/** For our own pages: what they need comes from this server. */
export const PAGE_HEADERS = securityHeaders({
  contentSecurityPolicy: {
    directives: { styleSrc: ["'self'", "'unsafe-inline'"], imgSrc: ["'self'", 'data:'], upgradeInsecureRequests: null },
  },
});
