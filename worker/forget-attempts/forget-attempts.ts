import type { BansTable } from '../../shared/postgres/bans.js';
import type { RedemptionAttempts } from '../../shared/postgres/redemption-attempts.js';

/**
 * Deletes attempts that are older than `keepDays`. One run deletes a bounded number; the next run continues.
 * @param nowMs by the clock of Redis
 */
export async function forgetAttempts(
  attempts: RedemptionAttempts,
  keepDays: number,
  nowMs: number,
  limits: { pruneBatch: number; attemptsPruneBatches: number },
): Promise<void> {
  const before = new Date(nowMs - keepDays * 86_400_000);
  for (let batch = 0; batch < limits.attemptsPruneBatches; batch += 1) {
    if ((await attempts.prune(before, limits.pruneBatch)) < limits.pruneBatch) return;
  }
}

/**
 * Deletes bans by rules that ended long ago, in the same way. Bans by operators stay.
 * @param nowMs by the clock of Redis, as the ends of bans
 */
export async function forgetRuleBans(
  bans: BansTable,
  nowMs: number,
  limits: { ruleBansKeepMs: number; pruneBatch: number; attemptsPruneBatches: number },
): Promise<void> {
  const before = new Date(nowMs - limits.ruleBansKeepMs);
  for (let batch = 0; batch < limits.attemptsPruneBatches; batch += 1) {
    if ((await bans.pruneOfRules(before, limits.pruneBatch)) < limits.pruneBatch) return;
  }
}
