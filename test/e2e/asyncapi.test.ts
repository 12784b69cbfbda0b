import { createRequire } from 'node:module';
import { expect, test } from '@jest/globals';
import { Ajv } from 'ajv';
import { SERVER_FRAMES } from '../../shared/contracts/frames.js';
import { Operator, PaymentService, send } from '../harness/clients.js';
import { startService } from '../harness/service.js';
import { arrive, gatherShoppers, joinLine } from '../harness/shoppers.js';
import { type Frame, openSocket } from '../harness/sockets.js';
import { until } from '../harness/until.js';

const service = await startService();
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
  for (const path of references) {
    const target = path.split('/').reduce<any>((at, name) => at?.[name], document);
    expect([path, typeof target]).toEqual([path, 'object']);
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
    [...Object.keys(SERVER_FRAMES), 'leave', 'ping', 'subscribe'].sort(),
  );
});

/**
 * What is wrong with a frame, by the payload that the document gives its type; a field that is not described is wrong
 * too.
 */
function faultsOf(frame: Frame): unknown[] {
  const payload = document.components.messages[frame.type].payload;
  const validate = ajv.compile({ ...payload, additionalProperties: false });
  validate(frame);
  return validate.errors ?? [];
}
