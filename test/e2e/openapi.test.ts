import { expect, test } from '@jest/globals';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import { DOCUMENTED_EVENTS } from '../../shared/contracts/events.js';
import { ERROR_CODES } from '../../shared/errors/catalogue.js';
import { send } from '../harness/clients.js';
import { ADMIN_SECRET, SERVICE_SECRET, sharedService } from '../harness/service.js';

const service = await sharedService();
const document = (await send(`${service.url}/openapi.json`)).body;
// Formats are the schemas' business; their absence is no fault of the document.
// Each schema that is referred to is compiled once, not into every body that has it.
const ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: true, inlineRefs: false }).addSchema({
  ...document,
  $id: 'openapi',
});

type Media = { schema: any; example?: any; examples?: Record<string, { $ref: string }> };
type Operation = {
  operationId: string;
  tags: string[];
  parameters?: { name: string; in: string }[];
  security?: Record<string, unknown>[];
  requestBody?: { content: Record<string, Media> };
  responses: Record<string, { headers?: Record<string, any>; content?: Record<string, Media> }>;
};
type Named = { name: string; method: string; path: string; operation: Operation };

const operationsIn = (paths: Record<string, Record<string, Operation>>): Named[] =>
  Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ name: operation.operationId, method, path, operation })),
  );
const operations = operationsIn(document.paths);
const webhooks = operationsIn(document.webhooks);

const encoded = (name: string) => encodeURIComponent(name.replaceAll('~', '~0').replaceAll('/', '~1'));

/** Every JSON body that the document describes, with the JSON pointer to its schema. */
const bodies = [
  ...operations.map((named) => ({ ...named, root: 'paths' })),
  ...webhooks.map((named) => ({ ...named, root: 'webhooks' })),
].flatMap(({ root, path, method, operation: { requestBody, responses } }) => {
  const places = [
    ['requestBody', requestBody?.content ?? {}] as const,
    ...Object.entries(responses).map(([status, { content }]) => [`responses/${status}`, content ?? {}] as const),
  ];
  return places.flatMap(([place, content]) =>
    Object.entries(content)
      .filter(([type]) => type.endsWith('json'))
      .map(([type, media]) => ({
        pointer: `/${root}/${encoded(path)}/${method}/${place}/content/${encoded(type)}/schema`,
        media,
      })),
  );
});

test('each operation has a name for generators, a tag that is described, and a success', () => {
  const names = [...operations, ...webhooks].map(({ name }) => name);
  expect(names.length).toBeGreaterThan(60);
  expect(new Set(names).size).toBe(names.length);
  for (const name of names) expect(name).toMatch(/^[a-z][A-Za-z0-9]+$/);
  const tags = document.tags.map(({ name }: { name: string }) => name);
  for (const { operation } of operations) expect(tags).toEqual(expect.arrayContaining(operation.tags));
  expect(document.servers).toEqual([expect.objectContaining({ url: '/' })]);
  expect(webhooks.map(({ path }) => path)).toEqual(Object.keys(DOCUMENTED_EVENTS));
});

test('each operation has the request headers that its body, its query and its responses imply', () => {
  const lacking: [string, string][] = [];
  let found = 0;
  for (const { name, operation } of operations) {
    const { parameters = [], requestBody, responses } = operation;
    const headers = parameters.filter((each) => each.in === 'header').map((each) => each.name);
    const schema = requestBody?.content['application/json']?.schema;
    const fields = Object.keys(document.components.schemas[schema?.$ref?.split('/').at(-1)]?.properties ?? {});
    const given = [...fields, ...parameters.map((each) => each.name)];
    const implied = {
      'idempotency-key': given.includes('idempotency_key'),
      'x-device-fingerprint': given.includes('device_fp'),
      'if-none-match': '304' in responses,
    };
    for (const [header, isImplied] of Object.entries(implied)) {
      if (!isImplied) continue;
      found += 1;
      if (!headers.includes(header)) lacking.push([name, header]);
    }
  }
  expect(lacking).toEqual([]);
  expect(found).toBeGreaterThan(6);
});

test('webhooks have a tag of their own, and are left out on request', async () => {
  const tagsOf = (named: Named[]) => [...new Set(named.flatMap(({ operation }) => operation.tags))];
  expect(tagsOf(webhooks)).toEqual(['events']);
  expect(tagsOf(operations)).not.toContain('events');
  const { status, body } = await send(`${service.url}/openapi.json?webhooks=0`);
  const { webhooks: _, tags, ...others } = document;
  expect(status).toBe(200);
  expect(body).toEqual({ ...others, tags: tags.filter(({ name }: { name: string }) => name !== 'events') });
  expect((await send(`${service.url}/openapi.json?webhooks=1`)).body).toEqual(document);
  expect((await send(`${service.url}/openapi.json?webhooks=no`)).body).toMatchObject({
    code: 'invalid_request',
    errors: [{ pointer: '#/webhooks' }],
  });
});

test('the data of each response have a name, and the parts of a list', () => {
  const isNamed = (schema: any): boolean =>
    schema.items ? isNamed(schema.items) : '$ref' in schema || !JSON.stringify(schema).includes('"properties"');
  const fields = operations.flatMap(({ name, operation: { responses } }) =>
    Object.values(responses).flatMap(({ content }) =>
      Object.entries<any>(content?.['application/json']?.schema.properties ?? {}).map(([field, schema]) => ({
        field: `${name}.${field}`,
        schema,
      })),
    ),
  );
  expect(fields.length).toBeGreaterThan(60);
  expect(fields.filter(({ schema }) => !isNamed(schema)).map(({ field }) => field)).toEqual([]);
});

test('a linter finds each path once, whom each operation asks for credentials, and no header or example that is not used', () => {
  expect(Object.keys(document.paths).filter((path) => path !== '/' && path.endsWith('/'))).toEqual([]);
  for (const { name, operation } of [...operations, ...webhooks])
    expect([name, Array.isArray(operation.security)]).toEqual([name, true]);
  const text = JSON.stringify(document);
  for (const kind of ['headers', 'examples']) {
    const isUsed = (name: string) => text.includes(`"#/components/${kind}/${name}"`);
    expect(Object.keys(document.components[kind]).filter((name) => !isUsed(name))).toEqual([]);
  }
});

test('every reference leads somewhere, and the document of problems is there once', () => {
  const text = JSON.stringify(document);
  const references = [...text.matchAll(/"\$ref":"#\/([^"]+)"/g)].map(([, path]) => String(path));
  expect(references.length).toBeGreaterThan(300);
  for (const path of new Set(references)) {
    const target = path.split('/').reduce<any>((at, name) => at?.[name.replaceAll('~1', '/')], document);
    expect([path, typeof target]).toEqual([path, 'object']);
  }
  expect(text.split('"instance":{"type"').length - 1).toBe(1);
});

test('every body of a request and of a response has an example that fits its schema', () => {
  expect(bodies.length).toBeGreaterThan(200);
  // Most bodies are problems, whose schemas and examples are the same in many operations.
  const distinct = new Map(bodies.map((body) => [JSON.stringify(body.media), body]));
  const validators = new Map<string, ValidateFunction>();
  for (const { pointer, media } of distinct.values()) {
    const schema = JSON.stringify(media.schema);
    const validate = validators.get(schema) ?? ajv.compile({ $ref: `openapi#${pointer}` });
    validators.set(schema, validate);
    const examples = media.examples ? Object.keys(media.examples).map(problemOf) : [media.example];
    expect([pointer, examples.length > 0]).toEqual([pointer, true]);
    for (const example of examples) {
      expect([pointer, validate(example), example, validate.errors]).toEqual([pointer, true, example, null]);
    }
  }
});

test('no example has a filler, and those of events are about what their subject names', () => {
  const fillers = bodies.flatMap(({ pointer, media }) => {
    const text = JSON.stringify(media.example ?? null);
    return /"text[".]|:""/.test(text) ? [[pointer, text.slice(0, 2_000)]] : [];
  });
  expect(fillers).toEqual([]);
  for (const { name, operation } of webhooks) {
    const { example } = operation.requestBody?.content['application/cloudevents+json'] ?? {};
    const { reservation_id, product_id, endpoint_id, payment_ref } = example.data;
    expect([name, example.subject]).toEqual([name, reservation_id ?? product_id ?? endpoint_id ?? payment_ref]);
    if ('status' in example.data) expect(example.data.status).not.toBe(example.data.before);
  }
});

test('no JSON body is described as a text', () => {
  const texts = bodies.filter(({ media }) => media.schema.type === 'string').map(({ pointer }) => pointer);
  expect(texts).toEqual([]);
});

test('each error code of an operation has an example', () => {
  const codes = Object.keys(document.components.examples);
  // These are of no operation: of a path, of the origin, of sign-in with OpenID Connect.
  const others = ['method_not_allowed', 'origin_not_allowed', 'session_not_found'];
  expect([...codes, ...others].sort()).toEqual([...ERROR_CODES].sort());
  for (const code of codes) expect(problemOf(code)).toMatchObject({ code, title: expect.any(String) });
});

test('a reservation is a UUID in requests as in responses', () => {
  const wrong: string[] = [];
  let found = 0;
  const visit = (value: any, at: string): void => {
    // A payment provider may name a reservation by any text.
    if (typeof value !== 'object' || value === null || at.endsWith('/named')) return;
    const fields = { ...value.properties, ...(value.in && value.name ? { [value.name]: value.schema } : {}) };
    for (const [name, field] of Object.entries<any>(fields)) {
      if (!/^(reservation|redemption)_id$/.test(name)) continue;
      found += 1;
      if (field.format !== 'uuid') wrong.push(`${at}/${name}`);
    }
    for (const [name, within] of Object.entries(value)) if (!name.startsWith('example')) visit(within, `${at}/${name}`);
  };
  visit(document, '');
  expect(wrong).toEqual([]);
  expect(found).toBeGreaterThan(20);
});

test('every pattern compiles, and what it allows is written in the way of JSON Schema', () => {
  const patterns = [...JSON.stringify(document).matchAll(/"pattern":("(?:[^"\\]|\\.)*")/g)].map(
    ([, text]) => JSON.parse(String(text)) as string,
  );
  expect(patterns.length).toBeGreaterThan(10);
  for (const pattern of new Set(patterns)) {
    expect(() => new RegExp(pattern, 'u')).not.toThrow();
    expect(pattern).not.toMatch(/^\/|\/[a-z]*$/);
  }
});

test('the service accepts the example of each request', async () => {
  const secretOf = (security: Operation['security'] = []) =>
    security.some((scheme) => 'adminKey' in scheme) ? ADMIN_SECRET : SERVICE_SECRET;
  const ids = { id: '01a1fc6c-1111-7c3a-8f00-5a4c3b2a1900' };
  const refused: unknown[] = [];
  let tried = 0;
  // The tests before this one block for seconds, while the server closes the idle connection.
  await send(`${service.url}/livez`);
  for (const { name, method, path, operation } of operations) {
    const example = operation.requestBody?.content['application/json']?.example;
    if (example === undefined) continue;
    // The body of an erasure repeats the user id of its path.
    const target = path.replace('{id}', ids.id).replace('{user_id}', String((example as { user_id?: string }).user_id));
    const { status, body } = await send(`${service.url}${target}`, {
      method: method.toUpperCase(),
      headers: { authorization: `Bearer ${secretOf(operation.security)}` },
      json: example,
    });
    tried += 1;
    // Where no resolver knows the name of the example, this is all that is wrong with it.
    const isUnresolved = body.errors?.every(({ detail }: { detail: string }) => / has no address$/.test(detail));
    if (isUnresolved) continue;
    if (status === 400) refused.push([name, body.code, body.errors]);
  }
  expect(refused).toEqual([]);
  expect(tried).toBeGreaterThan(12);
});

function problemOf(code: string): any {
  return document.components.examples[code].value;
}
