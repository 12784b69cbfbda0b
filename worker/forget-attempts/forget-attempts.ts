import type { BansTable } from '../../shared/postgres/bans.js';
import type { RedemptionAttempts } from '../../shared/postgres/redemption-attempts.js';

/** Deletes attempts that are older than `keepDays`. One run deletes a bounded number; the next run continues. */
export async function forgetAttempts(
  attempts: RedemptionAttempts,
  keepDays: number,
  limits: { pruneBatch: number; attemptsPruneBatches: number },
): Promise<void> {
  const before = new Date(Date.now() - keepDays * 86_400_000);
  for (let batch = 0; batch < limits.attemptsPruneBatches; batch += 1) {
    if ((await attempts.prune(before, limits.pruneBatch)) < limits.pruneBatch) return;
  }
}

/** Deletes bans by rules that ended long ago, in the same way. Bans by operators stay. */
export async function forgetRuleBans(
  bans: BansTable,
  limits: { ruleBansKeepMs: number; pruneBatch: number; attemptsPruneBatches: number },
): Promise<void> {
  const before = new Date(Date.now() - limits.ruleBansKeepMs);
  for (let batch = 0; batch < limits.attemptsPruneBatches; batch += 1) {
    if ((await bans.pruneOfRules(before, limits.pruneBatch)) < limits.pruneBatch) return;
  }
}
