import { setImmediate } from 'node:timers/promises';
import { expect, test } from '@jest/globals';
import { z } from 'zod';
import { openApiDocument } from './openapi.js';
import type { Route } from './route.js';

const route: Route = {
  contract: {
    operationId: 'addPart',
    method: 'post',
    path: '/things/:id/parts/:part',
    summary: 'Adds a part',
    tag: 'admin',
    caller: 'service or ticket',
    params: z.object({ id: z.string(), part: z.string() }),
    body: z.object({ count: z.int() }),
    answers: {
      200: { description: 'Done.', data: z.object({ total: z.int() }) },
      202: { description: 'A table.', contentTypes: ['text/csv'], headers: ['Location'] },
    },
    errors: ['invalid_request', 'invalid_json', 'sold_out'],
  },
  handle: () => {},
};

test('documents the contract of a route', async () => {
  const document = (await openApiDocument([route], '1.2.3')) as Record<string, any>;
  expect([document.openapi, document.info.version]).toEqual(['3.1.0', '1.2.3']);
  const operation = document.paths['/things/{id}/parts/{part}'].post;
  expect(operation).toMatchObject({
    summary: 'Adds a part',
    tags: ['admin'],
    security: [{ serviceKey: [] }, { ticket: [] }],
  });
  expect(operation.parameters.map((parameter: { name: string; in: string }) => [parameter.name, parameter.in])).toEqual(
    [
      ['id', 'path'],
      ['part', 'path'],
    ],
  );
  expect(operation.operationId).toBe('addPart');
  const { schemas } = document.components;
  const [sent, returned] = [operation.requestBody, operation.responses['200']].map(
    (of) => of.content['application/json'],
  );
  expect([sent.schema, sent.example]).toEqual([{ $ref: '#/components/schemas/AddPartRequest' }, { count: 0 }]);
  expect(schemas.AddPartRequest.properties.count.type).toBe('integer');
  expect(returned.schema.properties.data).toEqual({ $ref: '#/components/schemas/AddPartData' });
  expect([schemas.AddPartData.properties.total.type, returned.example]).toEqual([
    'integer',
    { data: { total: 225_000 } },
  ]);
  expect(operation.responses['410'].content['application/problem+json']).toEqual({
    schema: { $ref: '#/components/schemas/Problem' },
    examples: { sold_out: { $ref: '#/components/examples/sold_out' } },
  });
  expect(Object.keys(operation.responses['202'].content)).toEqual(['text/csv']);
  expect(Object.keys(operation.responses['202'].headers)).toEqual(['X-Request-Id', 'Location']);
  // Errors that every route of its kind can return are documented without being listed.
  expect(Object.keys(operation.responses).join(' ')).toBe(
    '200 202 400 401 403 408 410 413 415 417 421 429 431 500 503',
  );
  expect(operation.responses['400'].description).toContain(
    '`invalid_request`: The request is not valid. `invalid_json`: The body is not valid JSON.',
  );
  expect(Object.keys(operation.responses['401'].headers)).toEqual(['X-Request-Id', 'WWW-Authenticate']);
  expect(Object.keys(document.components.securitySchemes).sort()).toEqual([
    'adminKey',
    'serviceKey',
    'shopperHandOver',
    'shopperJwt',
    'ticket',
  ]);
});

test('has defaults in descriptions, because generators make fields with a `default` required', async () => {
  const body = z.object({
    count: z.int().default(1),
    line: z
      .object({ size: z.int().default(5).describe('places.') })
      .default({ size: 5 })
      .describe('who waits'),
    default: z.boolean().default(false),
  });
  const query = z.object({
    limit: z.coerce.number().int().default(50),
    sort: z.string().default('new').describe('order'),
  });
  const document = (await openApiDocument(
    [{ ...route, contract: { ...route.contract, body, query } }],
    '1.2.3',
  )) as Record<string, any>;
  const operation = document.paths['/things/{id}/parts/{part}'].post;
  const { properties, required } = document.components.schemas.AddPartRequest;
  expect(required).toBeUndefined();
  expect(properties.count).toEqual({ type: 'integer', description: 'Default: 1' });
  const size = { type: 'integer', description: 'places. Default: 5' };
  expect(properties.line).toEqual({
    type: 'object',
    properties: { size },
    description: 'who waits. Default: {"size":5}',
  });
  expect(properties.default).toEqual({ type: 'boolean', description: 'Default: false' });
  expect(operation.parameters.slice(2)).toMatchObject([
    { name: 'limit', required: false, description: 'Default: 50', schema: { description: 'Default: 50' } },
    { name: 'sort', required: false, description: 'order. Default: "new"' },
  ]);
  expect(JSON.stringify(operation.parameters)).not.toContain('"default"');
});

test('lets other requests in between its operations', async () => {
  let turns = 0;
  let isDone = false;
  const others = (async () => {
    for (; !isDone; turns++) await setImmediate();
  })();
  const routes = Array.from({ length: 50 }, (_, i) => ({
    ...route,
    contract: { ...route.contract, operationId: `addPart${i}`, path: `/things/${i}` },
  }));
  await openApiDocument(routes, '1.2.3');
  isDone = true;
  await others;
  // Once for the schemas of each operation, and once for its examples.
  expect(turns).toBeGreaterThan(2 * routes.length);
});

test('refuses two schemas of one name', async () => {
  const other = { ...route.contract, path: '/others', body: z.object({ other: z.int() }) };
  await expect(openApiDocument([route, { ...route, contract: other }], '1.2.3')).rejects.toThrow(
    'schemas/AddPartRequest has two meanings',
  );
});
