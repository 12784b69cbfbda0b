import { describe, expect, it } from '@jest/globals';
import type { EntryOf } from '../../shared/contracts/journal.js';
import type { CampaignNo, ProductId } from '../../shared/domain/ids.js';
import { EventWriter } from '../../shared/projection/event-writer.js';
import { CampaignDirectory } from '../../shared/sale/campaign-directory.js';
import { startPersistence } from '../harness/persistence.js';
import { startSale } from '../harness/sale.js';

/** A campaign number may be given again after Postgres and Redis were set back, and then a new history begins. */
const sale = await startSale();
const store = await startPersistence(sale);

describe('CampaignDirectory', () => {
  it('asks for the product of a number again when a history has begun', async () => {
    let [product, generation, asked] = ['before' as ProductId, '1', 0];
    const productOf = async () => {
      asked += 1;
      return product;
    };
    const directory = new CampaignDirectory({ productOf }, () => generation);
    const no = 2 as CampaignNo;
    expect([await directory.productOf(no), await directory.productOf(no), asked]).toEqual(['before', 'before', 1]);
    [product, generation] = ['after' as ProductId, '2'];
    expect(await directory.productOf(no)).toBe('after');
  });

  it('does not keep what it asked for before a history began', async () => {
    let generation = '1';
    const answers = ['before', 'after'] as ProductId[];
    const productOf = async () => {
      generation = '2';
      return answers.shift() ?? null;
    };
    const directory = new CampaignDirectory({ productOf }, () => generation);
    await directory.productOf(2 as CampaignNo);
    expect(await directory.productOf(2 as CampaignNo)).toBe('after');
  });
});

describe('EventWriter', () => {
  it('reads the campaign of a number again when a history has begun', async () => {
    const campaign = await store.openCampaign();
    await campaign.take('ann');
    const entries = (await campaign.entries()) as EntryOf<'reserved'>[];
    const writer = new EventWriter();
    writer.startGeneration(1);
    await store.database.transaction(async (client) => {
      expect(await writer.reservationsIn(client, entries)).toEqual(entries);
      await client.query('update campaigns set no = default where product_id = $1', [campaign.product]);
      writer.startGeneration(1);
      expect(await writer.reservationsIn(client, entries)).toEqual(entries);
      writer.startGeneration(2);
      expect(await writer.reservationsIn(client, entries)).toBeNull();
    });
  });
});
