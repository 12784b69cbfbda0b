import { expect, test } from '@jest/globals';
import type { CampaignNo, IdempotencyKey, OrderId, ReservationId, UserId } from '../../shared/domain/ids.js';
import { EngineUnavailable } from '../../shared/errors/faults.js';
import type { RedisGate } from '../../shared/redis/gate.js';
import { ScriptRunner } from '../../shared/redis/script-runner.js';
import { SaleReader } from '../../shared/sale/sale-reader.js';
import { startSale } from '../harness/sale.js';

/** A gate that is open until a reader finds that Redis was emptied. */
class OpenGate implements Pick<RedisGate, 'guard' | 'distrust' | 'assertOpen'> {
  reason: string | null = null;

  guard<Value>(call: () => Promise<Value>): Promise<Value> {
    return call();
  }

  distrust(reason: string): void {
    this.reason = reason;
  }

  assertOpen(): void {
    if (this.reason !== null) throw new EngineUnavailable('redis', this.reason);
  }
}

const sale = await startSale();
const ann = 'ann' as UserId;

test('nothing that an emptied Redis lacks is an answer', async () => {
  const campaign = await sale.openCampaign();
  const [product, id] = [campaign.product, (await campaign.take('ann')) as ReservationId];
  const { redis, luaFolder } = sale.store.reader.scripts;
  const read = (what: (reader: SaleReader) => Promise<unknown>) =>
    what(new SaleReader(new ScriptRunner(redis, luaFolder, new OpenGate() as unknown as RedisGate)));
  const reads: readonly ((reader: SaleReader) => Promise<unknown>)[] = [
    (reader) => reader.remembers(ann, 'key-12345' as IdempotencyKey),
    (reader) => reader.slotsOf(product, ann),
    (reader) => reader.waits(product, ann),
    (reader) => reader.archived(product),
    (reader) => reader.has(product),
    (reader) => reader.stock(product),
    (reader) => reader.publicState(product),
    (reader) => reader.lineProgress(product),
    (reader) => reader.reservations(product, 10).next(),
    (reader) => reader.reservationsById(product, [id]),
    (reader) => reader.claimsOn(ann, 'order-1' as OrderId),
    (reader) => reader.directory(),
    (reader) => reader.productOf(campaign.terms.no as CampaignNo),
  ];
  for (const what of reads) await read(what);
  await sale.redis.flushall();
  for (const what of reads) await expect(read(what)).rejects.toThrow(EngineUnavailable);
});
