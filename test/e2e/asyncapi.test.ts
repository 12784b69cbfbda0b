import { createRequire } from 'node:module';
import { expect, test } from '@jest/globals';
import { Ajv } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { DOCUMENTED_EVENTS, EVENT_TYPES } from '../../shared/contracts/events.js';
import { SERVER_FRAMES } from '../../shared/contracts/frames.js';
import { Operator, PaymentService, send } from '../harness/clients.js';
import { startReceiver } from '../harness/receiver.js';
import { sharedService } from '../harness/service.js';
import { arrive, gatherShoppers, joinLine } from '../harness/shoppers.js';
import { type Frame, openSocket } from '../harness/sockets.js';
import { until } from '../harness/until.js';

const service = await sharedService();
const operator = new Operator(service.url);
const payments = new PaymentService(service.url);
const document = (await send(`${service.url}/asyncapi.json`)).body;
// Formats are the schemas' business; their absence is no fault of the document.
const ajv = new Ajv({ strict: false, validateFormats: false, allErrors: true });

test('the AsyncAPI document is one by its own specification, and every reference in it leads somewhere', () => {
  const require = createRequire(import.meta.url);
  const specification = require('@asyncapi/specs/schemas/3.0.0-without-$id.json') as object;
  const validate = ajv.compile(specification);
  expect([validate(document), validate.errors]).toEqual([true, null]);
  expect(validate({ ...document, channels: { sale: { address: 5 } } })).toBe(false);
  const references = [...JSON.stringify(document).matchAll(/"\$ref":"#\/([^"]+)"/g)].map(([, path]) => String(path));
  expect(references.length).toBeGreaterThan(20);
  const servers = Object.values<any>(document.channels).map(({ servers: [{ $ref }] }) => $ref);
  expect(servers).toEqual(['#/servers/api', '#/servers/redis', '#/servers/receiver']);
  for (const path of references) {
    const target = path.split('/').reduce<any>((at, name) => at?.[name], document);
    expect([path, typeof target]).toEqual([path, 'object']);
  }
});

test('the AsyncAPI document has the contact, the licence and the tags of the OpenAPI document', async () => {
  const openApi = (await send(`${service.url}/openapi.json`)).body;
  const { contact, license, tags } = document.info;
  expect(contact).toEqual({ name: expect.any(String), url: expect.stringMatching(/^https:/) });
  expect([contact, license.name]).toEqual([openApi.info.contact, openApi.info.license.name]);
  expect(openApi.tags).toEqual(expect.arrayContaining(tags));
  const used = Object.values<any>(document.operations).flatMap((operation) => operation.tags);
  const names = (of: { name: string }[]) => [...new Set(of.map(({ name }) => name))].sort();
  expect(names(used)).toEqual(names(tags));
});

test('every message has an example that fits its payload, and events those of the OpenAPI document', async () => {
  const { webhooks } = (await send(`${service.url}/openapi.json`)).body;
  for (const [type, message] of Object.entries<any>(document.components.messages)) {
    expect([type, message.examples?.length]).toEqual([type, 1]);
    const { payload } = message.examples[0];
    expect([type, payload, faultsOf(payload)]).toEqual([type, payload, []]);
    expect(JSON.stringify(payload)).not.toContain('"text"');
    const inOpenApi = webhooks[type]?.post.requestBody.content['application/cloudevents+json'].example;
    if (inOpenApi) expect(payload).toEqual(inOpenApi);
  }
});

test('the frames of a socket agree with the AsyncAPI document', async () => {
  const product = await operator.openCampaign({ total_limit: 1, hold_seconds: 900, waiting_room: { enabled: true } });
  const held = String((await arrive(service.url, product).checkout()).data.reservation_id);
  const line = await joinLine(gatherShoppers(service.url, product, 3));
  const sockets = await Promise.all(line.map((shopper) => openSocket(service.url, shopper.ticket)));
  const [first, second, third] = sockets;
  await Promise.all(sockets.map((socket) => socket.frame('welcome')));
  first?.send({ type: 'ping' });
  first?.send({ type: 'nonsense' });
  await first?.frame('error');
  await payments.release(held);
  const promoted = await first?.frame('promoted');
  await until('the others moved up', () => third?.ofType('position').at(-1)?.position === 2);
  second?.send({ type: 'leave' });
  await second?.frame('left');
  await payments.confirm(String(promoted?.reservation_id));
  await first?.frame('redeemed');
  await operator.call('POST', `/admin/campaigns/${product}/close`);
  await third?.frame('closed');

  const seen = sockets.flatMap(({ frames }) => frames);
  expect([...new Set(seen.map(({ type }) => type))].sort()).toEqual(
    ['closed', 'error', 'left', 'pong', 'position', 'promoted', 'redeemed', 'welcome'].sort(),
  );
  for (const frame of seen) expect(faultsOf(frame)).toEqual([]);
  // It would notice a frame that is not as described.
  expect(faultsOf({ ...(seen[0] as Frame), seq: 0 }).length).toBeGreaterThan(0);
  expect(Object.keys(document.components.messages).sort()).toEqual(
    [...Object.keys(SERVER_FRAMES), ...Object.keys(DOCUMENTED_EVENTS), 'leave', 'ping', 'subscribe'].sort(),
  );
});

test('the events of a webhook and of the stream agree with the AsyncAPI and the OpenAPI document', async () => {
  const receiver = await startReceiver();
  const product = await operator.openCampaign({ total_limit: 2, hold_seconds: 900 });
  const created = await operator.call('POST', '/admin/webhooks', { url: receiver.url, campaigns: [product] });
  expect(created.status).toBe(201);
  const { data } = await arrive(service.url, product).checkout();
  await payments.confirm(String(data.reservation_id));
  await operator.call('POST', `/admin/campaigns/${product}/close`);
  const wanted = ['redemption.reserved', 'redemption.redeemed', 'campaign.closed'];
  await until('the events came', () => receiver.received.length >= wanted.length);
  const openApi = (await send(`${service.url}/openapi.json`)).body;
  const schemas = new Ajv2020({ strict: false, validateFormats: false }).addSchema({ ...openApi, $id: 'openapi' });
  for (const { event } of receiver.received) {
    expect(faultsOf(event as Frame)).toEqual([]);
    const validate = schemas.compile({
      $ref: `openapi#/webhooks/${event.type}/post/requestBody/content/application~1cloudevents+json/schema`,
    });
    expect([validate(event), validate.errors]).toEqual([true, null]);
    expect(validate({ ...event, data: {} })).toBe(false);
  }
  const types = receiver.received.map(({ event }) => event.type.replace(/^dev\.doorbuster\.|\.v1$/g, ''));
  expect(types).toEqual(wanted);
  const { stream, webhooks } = document.channels;
  expect([stream.address, Object.keys(stream.messages), Object.keys(webhooks.messages)]).toEqual([
    'db1:events',
    EVENT_TYPES,
    Object.keys(DOCUMENTED_EVENTS),
  ]);
});

/**
 * What is wrong with a frame or an event, by the payload that the document gives its type. A field that is not
 * described is wrong too.
 */
function faultsOf(frame: Frame): unknown[] {
  const payload = document.components.messages[frame.type].payload;
  const validate = ajv.compile({ ...payload, additionalProperties: false });
  validate(frame);
  return validate.errors ?? [];
}
