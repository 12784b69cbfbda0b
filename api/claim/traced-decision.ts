import type { Tracing } from '../../shared/observability/tracing.js';
import type { ClaimRequest } from '../../shared/sale/reserve-input.js';
import type { ReserveOutcome } from '../../shared/sale/scripts/reserve.js';

/** Decides a claim within a span: the wait for its batch, and the call of the script that decides the batch. */
export async function tracedDecision(
  tracing: Tracing,
  { trace, product }: ClaimRequest,
  decide: () => Promise<ReserveOutcome>,
): Promise<ReserveOutcome> {
  const span = tracing.start('reserve', {
    kind: 'client',
    parent: trace,
    attributes: { 'db.system.name': 'redis', 'db.stored_procedure.name': 'reserve', 'doorbuster.campaign': product },
  });
  try {
    const outcome = await decide();
    span?.end({
      attributes: {
        'doorbuster.outcome': outcome.kind,
        ...('reservationId' in outcome ? { 'doorbuster.reservation': outcome.reservationId } : {}),
      },
    });
    return outcome;
  } catch (error) {
    span?.end({ error: error instanceof Error ? error.name : 'Error' });
    throw error;
  }
}
