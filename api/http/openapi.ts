import { OpenAPIRegistry, OpenApiGeneratorV31 } from '@asteasolutions/zod-to-openapi';
import { z } from 'zod';
import { ERRORS, type ErrorCode } from '../../shared/errors/catalogue.js';
import {
  type Answer,
  type Caller,
  errorsOf,
  HEADERS_OF_ERRORS,
  RESPONSE_HEADERS,
  type Route,
  type RouteContract,
} from './route.js';

const problem = z.object({
  type: z.url(),
  title: z.string(),
  status: z.int(),
  detail: z.string(),
  instance: z.string().describe('identifies the request in the log'),
  code: z.string(),
  errors: z.array(z.object({ pointer: z.string(), detail: z.string() })).optional(),
});

const SECURITY: { [Who in Caller]: Record<string, string[]>[] } = {
  anyone: [],
  // SHOPPER_IDENTITY decides which of them is required; `gateway` requires none.
  shopper: [{}, { shopperJwt: [] }, { shopperHandOver: [] }],
  ticket: [{ ticket: [] }],
  service: [{ serviceKey: [] }],
  'service or ticket': [{ serviceKey: [] }, { ticket: [] }],
  admin: [{ adminKey: [] }],
};

/** Returns the OpenAPI 3.1 document, generated from the contracts that validate requests. */
export function openApiDocument(routes: readonly Route[], version: string): object {
  const registry = new OpenAPIRegistry();
  registry.registerComponent('securitySchemes', 'adminKey', {
    type: 'http',
    scheme: 'bearer',
    description: 'ADMIN_API_KEYS',
  });
  registry.registerComponent('securitySchemes', 'serviceKey', {
    type: 'http',
    scheme: 'bearer',
    description: 'SERVICE_API_KEYS',
  });
  registry.registerComponent('securitySchemes', 'ticket', {
    type: 'apiKey',
    in: 'header',
    name: 'X-Ticket',
    description: 'the ticket that checkout returns',
  });
  registry.registerComponent('securitySchemes', 'shopperJwt', {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
    description: 'with `SHOPPER_IDENTITY=jwt`: a JWT of the shopper, whose `sub` is the `user_id`',
  });
  registry.registerComponent('securitySchemes', 'shopperHandOver', {
    type: 'apiKey',
    in: 'header',
    name: 'X-Shopper',
    description: 'with `SHOPPER_IDENTITY=signed`: a hand-over of the shopper, signed by the shop (docs/identity.md)',
  });
  for (const { contract } of routes) registry.registerPath(pathOf(contract));
  return new OpenApiGeneratorV31(registry.definitions).generateDocument({
    openapi: '3.1.0',
    info: {
      title: 'Doorbuster',
      version,
      description:
        'Flash sales and coupon redemption: each unit goes to exactly one user, and a fair waiting room for the others.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
  });
}

function pathOf(contract: RouteContract): Parameters<OpenAPIRegistry['registerPath']>[0] {
  const request: Record<string, unknown> = {};
  if (contract.params) request.params = contract.params;
  if (contract.query) request.query = contract.query;
  if (contract.headers) request.headers = contract.headers;
  if (contract.body) request.body = { required: true, content: contentOf(contract.body, contract.otherBodies) };
  const responses: Record<string, object> = {};
  for (const [status, answer] of Object.entries(contract.answers)) {
    responses[status] = {
      description: answer.description,
      headers: headersOf(answer),
      ...contentOfAnswer(answer),
    };
  }
  for (const [status, codes] of byStatus(errorsOf(contract))) {
    const { description, content, headers } = (responses[status] ?? {}) as Partial<DocumentedResponse>;
    const meanings = codes.map((code) => `\`${code}\`: ${ERRORS[code].title}.`).join(' ');
    responses[status] = {
      description: description === undefined ? meanings : `${description} ${meanings}`,
      headers: { ...headers, ...headersOf(HEADERS_OF_ERRORS[Number(status)]) },
      content: { ...content, 'application/problem+json': { schema: problem } },
    };
  }
  return {
    method: contract.method,
    path: contract.path.replace(/[:*](\w+)/g, '{$1}'),
    summary: contract.summary,
    ...(contract.description ? { description: contract.description } : {}),
    tags: [contract.tag],
    security: SECURITY[contract.caller],
    request,
    responses,
  } as Parameters<OpenAPIRegistry['registerPath']>[0];
}

type DocumentedResponse = { description: string; headers: object; content: object };

/** Headers of a response; those that every such response has are marked as required. */
function headersOf({ headers = [], optionalHeaders = [] }: Partial<Answer> = {}): Record<string, object> {
  const always = (['X-Request-Id', ...headers] as const).map((name) => [name, true] as const);
  const sometimes = optionalHeaders.map((name) => [name, false] as const);
  return Object.fromEntries(
    [...always, ...sometimes].map(([name, required]) => [
      name,
      { description: RESPONSE_HEADERS[name], ...(required ? { required } : {}), schema: { type: 'string' } },
    ]),
  );
}

function contentOfAnswer({ data, members, contentTypes = [] }: Answer): object {
  const texts = contentTypes.map((type) => [type, { schema: z.string() }]);
  const json = data ? [['application/json', { schema: z.object({ data, ...members?.shape }) }]] : [];
  return json.length + texts.length > 0 ? { content: Object.fromEntries([...json, ...texts]) } : {};
}

function contentOf(body: z.ZodType, others: Record<string, z.ZodType> = {}): Record<string, { schema: z.ZodType }> {
  const bodies = Object.entries({ 'application/json': body, ...others });
  return Object.fromEntries(bodies.map(([type, schema]) => [type, { schema }]));
}

function byStatus(codes: readonly ErrorCode[]): Map<number, ErrorCode[]> {
  const grouped = new Map<number, ErrorCode[]>();
  for (const code of codes) grouped.set(ERRORS[code].status, [...(grouped.get(ERRORS[code].status) ?? []), code]);
  return grouped;
}
