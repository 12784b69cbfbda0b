import { setImmediate } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { OpenAPIRegistry, OpenApiGeneratorV31 } from '@asteasolutions/zod-to-openapi';
import { z } from 'zod';
import { cloudEventSchema, DOCUMENTED_EVENTS, type DocumentedType } from '../../shared/contracts/events.js';
import { ERRORS, type ErrorCode } from '../../shared/errors/catalogue.js';
import { Examples, type JsonSchema } from './examples.js';
import { addComponents, headerReference } from './openapi-components.js';
import { PROBLEM_TYPE, problemSchema } from './problem-schema.js';
import {
  type Answer,
  type Caller,
  errorsOf,
  HEADERS_OF_ERRORS,
  type Route,
  type RouteContract,
  TAGS,
  type Tag,
} from './route.js';

const SECURITY: { [Who in Caller]: Record<string, string[]>[] } = {
  anyone: [],
  // SHOPPER_IDENTITY decides which of them is required; `gateway` requires none.
  shopper: [{}, { shopperJwt: [] }, { shopperHandOver: [] }],
  ticket: [{ ticket: [] }],
  service: [{ serviceKey: [] }],
  'service or ticket': [{ serviceKey: [] }, { ticket: [] }],
  admin: [{ adminKey: [] }],
};

/** Whom readers of the documents ask. */
export const CONTACT = { name: 'Doorbuster', url: 'https://github.com/doorbuster-dev/doorbuster/issues' } as const;

/** The schema of refusals, converted once instead of for each status of each route. */
const PROBLEM = { $ref: '#/components/schemas/Problem' };

const EVENTS_TAG: Tag = 'events';

type PathConfig = Parameters<OpenAPIRegistry['registerPath']>[0];
type Content = Record<string, { schema?: JsonSchema; example?: unknown; examples?: unknown }>;
type Parameter = { schema: JsonSchema; description?: string };
type Operation = {
  parameters?: Parameter[];
  requestBody?: { content: Content };
  responses?: Record<string, { content?: Content }>;
};
type Operations = Record<string, Record<string, Operation>>;
type Document = {
  paths: Operations;
  webhooks: Operations;
  components: Record<string, Record<string, object>>;
};
type OpenApiDocument = Document & { tags?: { name: string }[] };
type Info = Parameters<OpenApiGeneratorV31['generateDocument']>[0];

/**
 * Returns the OpenAPI 3.1 document, generated from the contracts that validate requests, and from those of the events.
 * It is meant for code generators: operations and schemas have names, and every body has an example. Half a second of
 * CPU time goes into it, so other requests are served between its operations.
 */
export async function openApiDocument(routes: readonly Route[], version: string): Promise<OpenApiDocument> {
  const info: Info = {
    openapi: '3.1.0',
    info: {
      title: 'Doorbuster',
      version,
      description:
        'Flash sales and coupon redemption: each unit goes to exactly one user, and a fair waiting room for the others.',
      contact: CONTACT,
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/', description: 'the server that this document comes from' }],
    tags: Object.entries(TAGS).map(([name, description]) => ({ name, description })),
  };
  // A path with a slash at the end is another spelling of the one without.
  const contracts = routes.map(({ contract }) => contract).filter(({ path }) => path === '/' || !path.endsWith('/'));
  const events = Object.keys(DOCUMENTED_EVENTS) as DocumentedType[];
  const document: Document = { paths: {}, webhooks: {}, components: {} };
  addPart(document, info, addComponents, [problemSchema]);
  for (const contract of contracts) {
    await setImmediate();
    addPart(document, info, (registry) => registry.registerPath(pathOf(contract)));
  }
  for (const type of events) {
    await setImmediate();
    addPart(document, info, (registry) => registry.registerWebhook(webhookOf(type)));
  }
  await addExamples(document);
  describeDefaults(document);
  removeUnused(document);
  return { ...info, ...document };
}

/**
 * Returns the document for generators that fail on webhooks. It keeps the schemas of events, for shops that receive
 * them.
 */
export function withoutWebhooks({ webhooks: _, tags = [], ...others }: OpenApiDocument): object {
  return { ...others, tags: tags.filter(({ name }) => name !== EVENTS_TAG) };
}

/** Adds what is registered, and the schemas to which it refers. @throws if it has another meaning for one of them */
function addPart(
  document: Document,
  info: Info,
  register: (registry: OpenAPIRegistry) => void,
  schemas: readonly z.ZodType[] = [],
): void {
  const registry = new OpenAPIRegistry();
  register(registry);
  const named = schemas.map((schema) => ({ type: 'schema' as const, schema }));
  const part = new OpenApiGeneratorV31([...named, ...registry.definitions]).generateDocument(
    info,
  ) as unknown as Document;
  for (const kind of ['paths', 'webhooks'] as const)
    for (const [path, operations] of Object.entries(part[kind]))
      document[kind][path] = { ...document[kind][path], ...operations };
  for (const [kind, components] of Object.entries(part.components)) {
    document.components[kind] ??= {};
    const known = document.components[kind];
    for (const [name, component] of Object.entries(components)) {
      if (!isDeepStrictEqual(known[name] ?? component, component)) throw new Error(`${kind}/${name} has two meanings`);
      known[name] = component;
    }
  }
}

function pathOf(contract: RouteContract): PathConfig {
  const request: Record<string, unknown> = {};
  if (contract.params) request.params = contract.params;
  if (contract.query) request.query = contract.query;
  if (contract.headers) request.headers = contract.headers;
  if (contract.body) request.body = { required: true, content: contentOf(contract) };
  const responses: Record<string, object> = {};
  for (const [status, answer] of Object.entries(contract.answers)) {
    responses[status] = {
      description: answer.description,
      headers: headersOf(answer),
      ...contentOfAnswer(answer, dataName(contract, status)),
    };
  }
  for (const [status, codes] of byStatus(errorsOf(contract))) {
    const { description, content, headers } = (responses[status] ?? {}) as Partial<DocumentedResponse>;
    const meanings = codes.map((code) => `\`${code}\`: ${ERRORS[code].title}.`).join(' ');
    const examples = Object.fromEntries(codes.map((code) => [code, { $ref: `#/components/examples/${code}` }]));
    responses[status] = {
      description: description === undefined ? meanings : `${description} ${meanings}`,
      headers: { ...headers, ...headersOf(HEADERS_OF_ERRORS[Number(status)]) },
      content: { ...content, [PROBLEM_TYPE]: { schema: PROBLEM, examples } },
    };
  }
  return {
    method: contract.method,
    path: contract.path.replace(/[:*](\w+)/g, '{$1}'),
    operationId: contract.operationId,
    summary: contract.summary,
    ...(contract.description ? { description: contract.description } : {}),
    tags: [contract.tag],
    security: SECURITY[contract.caller],
    request,
    responses,
  } as PathConfig;
}

/** A delivery of an event to a webhook endpoint: what the endpoint of a shop receives, and how it responds. */
function webhookOf(type: DocumentedType): PathConfig {
  const name = pascal(type.replace(/^dev\.doorbuster\./, ''));
  const headers = z.object({
    'webhook-id': z.uuid().describe('the id of the event: the same in every delivery of it'),
    'webhook-timestamp': z.string().describe('Unix seconds of this delivery'),
    'webhook-signature': z
      .string()
      .describe('`v1,` and base64 of HMAC-SHA256, one for each secret, separated by spaces'),
  });
  const content = { 'application/cloudevents+json': { schema: named(cloudEventSchema(type), name) } };
  return {
    method: 'post',
    path: type,
    operationId: `on${name}`,
    summary: DOCUMENTED_EVENTS[type].meaning,
    description: 'Signed by Standard Webhooks. See docs/events.md.',
    // Of their own: openapi-generator writes one class for each tag, and webhooks would replace the operations.
    tags: [EVENTS_TAG],
    security: [],
    request: { headers, body: { required: true, content } },
    responses: {
      204: { description: 'The event is accepted. Any 2xx is.' },
      410: { description: 'The endpoint is gone: it is disabled.' },
      default: { description: 'The delivery is retried for a day, with growing pauses.' },
    },
  };
}

type DocumentedResponse = { description: string; headers: object; content: object };

/** Headers of a response; those that every such response has are marked as required. */
function headersOf({ headers = [], optionalHeaders = [] }: Partial<Answer> = {}): Record<string, object> {
  const always = (['X-Request-Id', ...headers] as const).map((name) => [name, true] as const);
  const sometimes = optionalHeaders.map((name) => [name, false] as const);
  return Object.fromEntries(
    [...always, ...sometimes].map(([name, required]) => [name, headerReference(name, required)]),
  );
}

/** Name of the schema of the data of a response. A second success of an operation has its status in the name. */
function dataName({ operationId, answers }: RouteContract, status: string): string {
  const first = Object.keys(answers)[0] === status;
  return `${pascal(operationId)}Data${first ? '' : status}`;
}

function contentOfAnswer({ data, members, file, contentTypes = [], example }: Answer, name: string): object {
  if (file) return { content: { 'application/json': { schema: file, ...(example === undefined ? {} : { example }) } } };
  const texts = contentTypes.map((type) => [type, { schema: z.string() }]);
  const given = example === undefined ? {} : { example: { data: example } };
  const schema = data && z.object({ data: named(data, name), ...members?.shape });
  const json = schema ? [['application/json', { schema, ...given }]] : [];
  return json.length + texts.length > 0 ? { content: Object.fromEntries([...json, ...texts]) } : {};
}

function contentOf({ operationId, body, bodyExample, otherBodies = {} }: RouteContract): object {
  const example = bodyExample === undefined ? {} : { example: bodyExample };
  const json = body && { 'application/json': { schema: named(body, `${pascal(operationId)}Request`), ...example } };
  return { ...json, ...Object.fromEntries(Object.entries(otherBodies).map(([type, schema]) => [type, { schema }])) };
}

/** Names an object schema that has no name. Lists and values stay where they are used. */
function named<Schema extends z.ZodType>(schema: Schema, id: string): Schema {
  if (schema.meta()?.id !== undefined || schema instanceof z.ZodArray) return schema;
  return schema.meta({ ...schema.meta(), id });
}

/** Composes an example of each JSON body that has none. */
async function addExamples({ paths, webhooks, components }: Document): Promise<void> {
  const examples = new Examples(components.schemas ?? {});
  const ofPaths = Object.values(paths).map((operations) => ({ operations, event: undefined }));
  const ofEvents = Object.entries(webhooks).map(([event, operations]) => ({ operations, event }));
  for (const { operations, event } of [...ofPaths, ...ofEvents]) {
    await setImmediate();
    for (const { requestBody, responses = {} } of Object.values(operations)) {
      const contents = [requestBody?.content, ...Object.values(responses).map(({ content }) => content)];
      for (const [type, media] of contents.flatMap((content) => Object.entries(content ?? {}))) {
        if (!type.endsWith('json') || !media.schema || media.examples || media.example !== undefined) continue;
        media.example = event === undefined ? examples.of(media.schema) : examples.ofMessage(event, media.schema);
      }
    }
  }
}

/**
 * Moves defaults of schemas to their descriptions. Generators for TypeScript make a field with a `default` required,
 * and those for Java and Go fail on an object as `default`.
 */
function describeDefaults({ paths, webhooks, components }: Document): void {
  for (const operation of [paths, webhooks].flatMap((all) => Object.values(all)).flatMap((all) => Object.values(all))) {
    for (const parameter of operation.parameters ?? []) {
      const text = describeDefault(parameter.schema);
      if (text !== null) parameter.description = withDefault(parameter.description, text);
    }
    const contents = [operation.requestBody, ...Object.values(operation.responses ?? {})].map(
      (of) => of?.content ?? {},
    );
    for (const { schema } of contents.flatMap((content) => Object.values(content))) if (schema) describeDefault(schema);
  }
  for (const schema of Object.values(components.schemas ?? {})) describeDefault(schema);
}

/** Does so in a schema and in those within it. @returns the default of the schema itself as JSON; null = it has none */
function describeDefault(schema: JsonSchema): string | null {
  const { properties = {}, additionalProperties, items, allOf = [], anyOf = [], oneOf = [] } = schema;
  const within = [...Object.values(properties), ...allOf, ...anyOf, ...oneOf];
  if (items) within.push(items);
  if (typeof additionalProperties === 'object') within.push(additionalProperties);
  for (const each of within) describeDefault(each);
  if (schema.default === undefined) return null;
  const text = JSON.stringify(schema.default);
  delete schema.default;
  schema.description = withDefault(schema.description, text);
  return text;
}

const withDefault = (description: string | undefined, text: string): string =>
  description ? `${description.replace(/\.$/, '')}. Default: ${text}` : `Default: ${text}`;

/** Removes headers and examples of components to which no response refers. */
function removeUnused({ paths, components }: Document): void {
  const text = JSON.stringify(paths);
  for (const kind of ['headers', 'examples'] as const) {
    const all = components[kind] ?? {};
    for (const name of Object.keys(all)) if (!text.includes(`"#/components/${kind}/${name}"`)) delete all[name];
  }
}

/** `campaign.line_closed.v1` → `CampaignLineClosedV1` */
function pascal(name: string): string {
  return name.replace(/(?:^|[._])(\w)/g, (_, letter: string) => letter.toUpperCase());
}

function byStatus(codes: readonly ErrorCode[]): Map<number, ErrorCode[]> {
  const grouped = new Map<number, ErrorCode[]>();
  for (const code of codes) grouped.set(ERRORS[code].status, [...(grouped.get(ERRORS[code].status) ?? []), code]);
  return grouped;
}
