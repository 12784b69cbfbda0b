import type { OpenAPIRegistry } from '@asteasolutions/zod-to-openapi';
import { ERROR_CODES, ERRORS } from '../../shared/errors/catalogue.js';
import { problemExample } from './problem-schema.js';
import { type HeaderName, RESPONSE_HEADERS } from './route.js';

const SECURITY_SCHEMES = {
  adminKey: { type: 'http', scheme: 'bearer', description: 'ADMIN_API_KEYS' },
  serviceKey: { type: 'http', scheme: 'bearer', description: 'SERVICE_API_KEYS' },
  ticket: { type: 'apiKey', in: 'header', name: 'X-Ticket', description: 'the ticket that checkout returns' },
  shopperJwt: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
    description: 'with `SHOPPER_IDENTITY=jwt`: a JWT of the shopper, whose `sub` is the `user_id`',
  },
  shopperHandOver: {
    type: 'apiKey',
    in: 'header',
    name: 'X-Shopper',
    description: 'with `SHOPPER_IDENTITY=signed`: a hand-over of the shopper, signed by the shop (docs/identity.md)',
  },
} as const;

type HeaderSchema = { schema: { type: 'string' | 'integer'; minimum?: number; format?: string }; example: unknown };
const text = (example: string): HeaderSchema => ({ schema: { type: 'string' }, example });

/** Schemas and examples of response headers. */
const HEADER_SCHEMAS: { readonly [Name in HeaderName]: HeaderSchema } = {
  'X-Request-Id': text('01a1fc6d-483b-7a4a-9e25-913b00000002'),
  'Retry-After': { schema: { type: 'integer', minimum: 0 }, example: 2 },
  'WWW-Authenticate': text('Bearer realm="doorbuster"'),
  RateLimit: text('"device";r=19;t=1'),
  'RateLimit-Policy': text('"device";q=20;w=1'),
  Location: text('/flash-sale/queue-status?product_id=flash-indomie-2026&user_id=user-4711'),
  ETag: text('"17-230"'),
  Link: text('</admin/campaigns?limit=50&cursor=128>; rel="next"'),
  'Idempotent-Replayed': text('true'),
  'Set-Cookie': text('doorbuster_operator=…; Path=/admin; HttpOnly; SameSite=Strict'),
  'Content-Disposition': text('attachment; filename="codes.csv"'),
  'Doorbuster-As-Of': text('1:1024'),
  Allow: text('GET, HEAD'),
};

/** A header component is either in every response of its kind, or in some of them. */
const componentName = (name: HeaderName, required: boolean) => (required ? name : `${name}-optional`);

export const headerReference = (name: HeaderName, required: boolean) => ({
  $ref: `#/components/headers/${componentName(name, required)}`,
});

/** Registers what operations refer to: security schemes, response headers, and an example of each error. */
export function addComponents(registry: OpenAPIRegistry): void {
  for (const [name, scheme] of Object.entries(SECURITY_SCHEMES))
    registry.registerComponent('securitySchemes', name, scheme);
  for (const [name, description] of Object.entries(RESPONSE_HEADERS) as [HeaderName, string][]) {
    for (const required of [true, false])
      registry.registerComponent('headers', componentName(name, required), {
        description,
        required,
        ...HEADER_SCHEMAS[name],
      });
  }
  for (const code of ERROR_CODES)
    registry.registerComponent('examples', code, { summary: ERRORS[code].title, value: problemExample(code) });
}
