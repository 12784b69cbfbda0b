import { expect, test } from '@jest/globals';
import { CAMPAIGN_STATUSES } from '../../../shared/domain/campaign.js';
import { phaseAt, type SalePhase } from '../../../shared/domain/phase.js';
import { startSale } from '../../harness/sale.js';

const sale = await startSale();
const STARTS_AT_MS = 1_900_000_000_000;
const ENDS_AT_MS = STARTS_AT_MS + 60_000;
const MOMENTS = [STARTS_AT_MS - 1, STARTS_AT_MS, ENDS_AT_MS - 1, ENDS_AT_MS];
/** The reply of `check_redeemable` in each phase. */
const PHASE_OF: Record<string, SalePhase> = { not_found: 'draft', usable: 'open' };

for (const status of CAMPAIGN_STATUSES) {
  test(`phaseAt and the scripts find the same phase of a campaign that is ${status}`, async () => {
    for (const endsAt of [null, new Date(ENDS_AT_MS)]) {
      const campaign = await sale.openCampaign({ status, startsAt: new Date(STARTS_AT_MS), endsAt });
      const schedule = { status, startsAtMs: STARTS_AT_MS, endsAtMs: endsAt?.getTime() ?? null };
      for (const nowMs of MOMENTS) {
        const { kind } = await campaign.at(nowMs).checkRedeemable('ann', 0);
        expect([nowMs, phaseAt(schedule, nowMs)]).toEqual([nowMs, PHASE_OF[kind] ?? kind]);
      }
      expect(phaseAt({ ...schedule, endsAtMs: schedule.endsAtMs ?? 0 }, ENDS_AT_MS)).toBe(
        phaseAt(schedule, ENDS_AT_MS),
      );
    }
  });
}
